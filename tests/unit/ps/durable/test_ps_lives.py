"""Workers and servers that begin anew: who is who, what is still theirs, and what is not the same."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import CheckpointError, CommunicationError
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.initializers import Constant
from fleet.ps.job.rules import SGD
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.steps.gate import StateGate
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from support.processes import wait_until

pytestmark = pytest.mark.timeout(60)
WIDTH = 2


def job(mode: str = "async", num_workers: int = 1, num_servers: int = 1, max_bytes: int = 0) -> JobSpec:
    table = TableSpec("ads", WIDTH, SGD(lr=1.0), Constant(0.0), AlwaysEntry(), max_bytes=max_bytes)
    return JobSpec(num_workers, num_servers, mode, "error", (table,), DenseSpec((), (), ()))


@contextmanager
def client(services: list[Service], spec: JobSpec, worker: int = 0) -> Iterator[Client]:
    made = Client([LocalTransport(service) for service in services], worker, spec)
    made.declare()
    yield made
    made.close()


def push(client: Client, step: int, keys: Any) -> Any:
    found = route(torch.as_tensor(keys), client.num_servers)
    rows = len(found.grouped)
    part = TablePush(0, 1.0, found.grouped, torch.ones(rows, WIDTH), found.offsets.tolist())
    is_delta = client.job.mode == "geo"
    return client.push(Gradients(step, [part]), is_delta=is_delta).results()


def keys_of(service: Service) -> set[int]:
    table = service.state.held.tables[0]
    return set(table.export(0, table.num_shards)["keys"].tolist())


def shrink(client: Client, unseen_steps: int) -> None:
    client.changes.make(
        "Shrink", lambda server: ps_pb2.ShrinkRequest.Header(caller=client.caller(server), unseen_steps=unseen_steps)
    )


# Rows grow old by the job's time, not by that of a life.


def test_a_row_of_a_new_life_is_newer_than_all_of_the_former() -> None:
    service = Service()
    with client([service], job()) as first:
        for step in range(50):
            push(first, step, [1, 2])
    with client([service], job()) as second:
        push(second, 0, [3])
        push(second, 1, [4])
        shrink(second, 10)
        assert keys_of(service) == {1, 2, 3, 4}
        for step in range(2, 20):
            push(second, step, [5])
        shrink(second, 10)
    assert keys_of(service) == {5}


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_after_a_load_fresh_rows_are_newer_than_those_that_were_loaded(mode: str, tmp_path: Path) -> None:
    """A ceiling deletes the rows that were pushed least recently: those of the checkpoint, not those trained since."""
    saver, spec = Service(), job(mode)
    with client([saver], spec) as one:
        for step in range(20):
            push(one, step, np.arange(8000))
        saved = tmp_path / "saved"
        save(one, saved)
    limited = job(mode, max_bytes=200_000)
    service = Service()
    with client([service], limited) as one:
        one.changes.make("Load", lambda server: ps_pb2.LoadRequest.Header(caller=one.caller(server), folder=str(saved)))
        first = service.state.rounds.version if mode == "sync" else 0
        for step in range(10):
            push(one, first + step, np.arange(10_000, 11_000))
        held = keys_of(service)
    assert len(held) < 8000
    assert set(range(10_000, 11_000)) <= held


def save(one: Client, folder: Path) -> None:
    from fleet import checkpoint

    with checkpoint.saving(folder) as writing:
        ((reply, _),) = one.ask(
            "Save", lambda server: ps_pb2.SaveRequest.Header(caller=one.caller(server), folder=str(writing))
        )
        pieces = tuple(checkpoint.pieces_from_text(reply.pieces, "server 0"))
        checkpoint.commit(writing, folder, checkpoint.Manifest(reply.version, 1, pieces, job={"mode": one.job.mode}))


# Lives of workers come from the servers.


def test_a_worker_whose_clock_is_behind_is_not_its_own_former_life(monkeypatch: pytest.MonkeyPatch) -> None:
    services = [Service(), Service()]
    with client(services, job(num_servers=2)) as first:
        push(first, 0, [1, 2, 3])
        monkeypatch.setattr(time, "time_ns", lambda: 1)
        monkeypatch.setattr(time, "time", lambda: 1e-9)
        with client(services, job(num_servers=2)) as second:
            push(second, 0, [1, 2, 3])
            with pytest.raises(CommunicationError, match="this process is its former life"):
                push(first, 1, [1])


def test_a_declaration_that_is_sent_again_is_the_same_life() -> None:
    service = Service()

    def declared(life: int, incarnation: int) -> list[int]:
        caller = ps_pb2.Caller(worker=0, incarnation=incarnation)
        header = ps_pb2.DeclareRequest.Header(caller=caller, job=job().to_json(), life=life)
        replies: list[Any] = [service.handle("Declare", header, ())[0] for _ in range(2)]
        return [reply.incarnation for reply in replies]

    for life, incarnation in ((77, 1), (78, 2)):
        assert declared(life, 0) == [incarnation] * 2
        assert declared(life, incarnation) == [incarnation] * 2
        assert declared(life, 0) == [incarnation] * 2


@pytest.mark.parametrize("is_recovered", [False, True])
def test_a_declaration_of_a_former_life_comes_too_late(is_recovered: bool, tmp_path: Path) -> None:
    """It must not be taken for a third life, which would put an end to the second."""
    service, spec = Service(journal=(tmp_path, "OS")), job()
    with client([service], spec) as first, client([service], spec) as second:
        if is_recovered:
            service.close()
            service = Service(journal=(tmp_path, "OS"))
            second.transports[:] = [LocalTransport(service)]
        late = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(), job=spec.to_json(), life=first._life)
        with pytest.raises(CommunicationError, match="former life"):
            service.handle("Declare", late, ())
        push(second, 0, [1])
    service.close()


def test_a_leave_that_waits_while_the_next_life_begins_is_not_for_it() -> None:
    service, spec = Service(), job()
    errors: list[Exception] = []
    with client([service], spec) as first:
        header = ps_pb2.LeaveRequest.Header(caller=first.caller(0), sequence=100)

        def leave() -> None:
            try:
                service.handle("Leave", header, ())
            except CommunicationError as error:
                errors.append(error)

        with service.core.gate.closed:
            late = threading.Thread(target=leave)
            late.start()
            wait_until(lambda: _is_at_the_gate(late), 10, "the Leave")
            with service.core.changed:
                service.state.greet(0, 2, life=5)
        late.join(10)
    assert "former life" in str(errors)
    assert not service.finished.is_set()


def _is_at_the_gate(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code is not StateGate._close.__code__:
        frame = frame.f_back
    return frame is not None


def test_a_new_life_is_told_what_the_former_one_did() -> None:
    services = [Service(), Service()]
    with client(services, job(num_servers=2)) as first:
        assert (first.resumed_updates, first.resumed_position) == (0, b"")
        found = route(torch.arange(5), 2)
        part = TablePush(0, 1.0, found.grouped, torch.ones(5, WIDTH), found.offsets.tolist())
        first.push(Gradients(0, [part], steps=7, position=b"batch 7")).results()
    with client(services, job(num_servers=2)) as second:
        assert (second.resumed_updates, second.resumed_position) == (7, b"batch 7")


# Servers that do not belong together.


@pytest.mark.parametrize("mode", ["sync", "async", "half_async", "geo"])
def test_a_server_that_came_back_empty_is_not_taken_for_one_of_the_job(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "0.3")
    services = [Service(), Service()]
    with client(services, job(mode, num_servers=2)) as one:
        for step in range(3):
            push(one, step, range(10))
    services[1] = Service()
    with (
        pytest.raises(CheckpointError, match=r"server 1 .* has nothing, while others have taken 3 pushes: what it"),
        client(services, job(mode, num_servers=2)),
    ):
        pass


def test_servers_of_two_runs_are_told_apart() -> None:
    runs = [[Service(), Service()] for _ in range(2)]
    for services in runs:
        with client(services, job(num_servers=2)) as one:
            push(one, 0, range(10))
    mixed = [runs[0][0], runs[1][1]]
    with (
        pytest.raises(ValueError, match="server 1 has the state of another run of the job than server 0"),
        client(mixed, job(num_servers=2)),
    ):
        pass


# Half a step.


def test_what_was_collected_of_a_step_does_not_outlive_a_load(tmp_path: Path) -> None:
    service, spec = Service(), job("sync", num_workers=2)
    with client([service], spec) as first, client([service], spec, 1) as second:
        for one in (first, second):
            push(one, 0, [1])
        save(first, tmp_path / "saved")
        errors: list[str] = []

        def wait_in_vain() -> None:
            part = TablePush(0, 1.0, torch.tensor([1]), torch.full((1, WIDTH), 100.0), [0, 1])
            try:
                first.push(Gradients(1, [part]), is_awaited=True).results()
            except CommunicationError as error:
                errors.append(str(error))

        waiting = threading.Thread(target=wait_in_vain, daemon=True)
        waiting.start()
        while not service.state.rounds.pushed():
            time.sleep(0.001)
        second.changes.make(
            "Load",
            lambda server: ps_pb2.LoadRequest.Header(caller=second.caller(server), folder=str(tmp_path / "saved")),
        )
        waiting.join(20)
        assert "a checkpoint was loaded while worker 0 waited for step 1" in errors[0]
        for one in (first, second):
            push(one, 1, [1])
        assert service.state.held.pull(0, np.array([1])).tolist() == [[-2.0, -2.0]]


def test_two_pushes_of_one_worker_in_one_step_are_an_error() -> None:
    service, spec = Service(), job("sync", num_workers=2)
    with client([service], spec) as one:
        push(one, 0, [1])
        with pytest.raises(CommunicationError, match="worker 0 pushed step 0 twice"):
            push(one, 0, [2])
