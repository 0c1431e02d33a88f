"""A cut, call by call: who waits at the door and who does not, and what ends it when somebody dies in between."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from fleet import checkpoint
from fleet.errors import CheckpointError, UsageError
from fleet.ps.durable import cut, saves, storage
from fleet.ps.held.touched import TableKeys
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.steps import door
from fleet.ps.together import cutting
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.taken_pushes import TakenPushes
from fleet.ps.worker.asking import keys
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.runtime.saved import server_writes
from support.parity.training import exported, joined, served, started, strategy
from support.processes import wait_until

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.net import Endpoint
    from fleet.ps.held.holdings import Holdings
    from fleet.ps.wire.messages import Tensors

TABLE = TableSpec("ads", 2, rules.SGD(lr=1.0), initializers.Constant(0.0), entries.AlwaysEntry())
Phase = ps_pb2.CutRequest.Phase
NAME = 7

pytestmark = pytest.mark.timeout(120)


def job_of(num_servers: int, mode: str = "async") -> JobSpec:
    return JobSpec(num_workers=2, num_servers=num_servers, mode=mode, tables=(TABLE,))


def caller(worker: int, incarnation: int = 1) -> ps_pb2.Caller:
    return ps_pb2.Caller(worker=worker, incarnation=incarnation)


def declare(service: Service, worker: int, incarnation: int = 1, mode: str = "async") -> None:
    header = ps_pb2.DeclareRequest.Header(caller=caller(worker, incarnation), job=job_of(1, mode).to_json())
    service.handle("Declare", header, ())


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    for worker in range(2):
        declare(made, worker)
    yield made
    made.close()


def push(service: Service, worker: int, sequence: int, incarnation: int = 1) -> Any:
    table = ps_pb2.PushRequest.Table(table=0, lr=1.0)
    header = ps_pb2.PushRequest.Header(
        caller=caller(worker, incarnation), sequence=sequence, steps=sequence, tables=[table]
    )
    return service.handle("Push", header, [np.array([worker]), np.ones((1, 2), np.float32)])[0]


def ask(
    service: Service, phase: Phase, taken: Sequence[TakenPushes] = (), name: int = NAME, timeout_ms: int = 0
) -> Any:
    header = ps_pb2.CutRequest.Header(
        caller=caller(0),
        cut=name,
        phase=phase,
        timeout_ms=timeout_ms,
        taken=[one.message() for one in taken],
    )
    return service.handle("Cut", header, ())[0]


def hold(service: Service, **more: Any) -> list[TakenPushes]:
    reply = ask(service, Phase.HOLD, **more)
    assert reply.is_done
    return [TakenPushes.of(one) for one in reply.taken]


def counts(service: Service) -> list[float]:
    """How often the row of each worker was pushed."""
    return counted(exported(service))


def counted(rows: dict[str, Any]) -> list[float]:
    found = dict(zip(rows["keys"].tolist(), rows["values"][:, 0].tolist(), strict=True))
    return [-found.get(worker, 0.0) for worker in range(2)]


def test_new_pushes_wait_and_those_of_the_cut_come_in(service: Service, tmp_path: Path) -> None:
    push(service, 0, 1)
    push(service, 1, 1)
    push(service, 1, 3)  # it had two under way
    assert hold(service) == [TakenPushes(1, 1, frozenset()), TakenPushes(1, 1, frozenset({3}))]
    assert hold(service) == hold(service)  # also if the answer was lost
    assert push(service, 0, 1).was_repeated
    pulled = ps_pb2.PullRequest.Header(caller=caller(1), tables=[0])
    assert len(service.handle("Pull", pulled, [np.array([0, 1])])[1]) == 1
    in_cut, beyond = started(lambda: push(service, 1, 2), lambda: push(service, 1, 4))
    wanted = [TakenPushes(1, 1, frozenset()), TakenPushes(1, 3, frozenset())]
    reply = ask(service, Phase.TAKE, wanted, timeout_ms=20_000)
    assert reply.is_done
    assert reply.is_copied
    assert in_cut.result(20).version == 4
    assert beyond.result(20).version == 5
    assert ask(service, Phase.TAKE, wanted).is_done  # also if that answer was lost
    assert saved(service, tmp_path) == [1, 3]
    assert counts(service) == [1, 4]


def saved(service: Service, tmp_path: Path, name: int = NAME) -> list[float]:
    """Have a cut written; how often each row was pushed in it, which the steps of its moment say too."""
    writing = checkpoint.begin(tmp_path / "saved")
    reply = save(service, writing, name)
    while not reply.is_written:
        reply = save(service, writing, name)
    pieces = checkpoint.pieces_from_text(reply.pieces, "it")
    checkpoint.commit(writing, tmp_path / "saved", checkpoint.Manifest(1, 1, pieces))
    rows = checkpoint.read_piece(tmp_path / "saved" / pieces[0].file.name, pieces[0].file)
    found = counted(rows)
    assert list(reply.steps) == found
    return found


def save(service: Service, writing: Path, name: int = NAME) -> Any:
    header = ps_pb2.SaveRequest.Header(caller=caller(0), folder=str(writing), cut=name, timeout_ms=200)
    return service.handle("Save", header, ())[0]


def test_a_push_that_waits_long_is_asked_to_come_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "WAIT_S", 0.01)
    hold(service)
    assert push(service, 1, 1).is_held
    ask(service, Phase.DROP)
    assert not push(service, 1, 1).is_held
    assert ask(service, Phase.TAKE, [TakenPushes(1, 0, frozenset())] * 2).lost == "its caller has given it up"


def test_the_door_opens_by_itself(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cut, "DOOR_S", 1.0)
    taken = hold(service)
    assert not push(service, 1, 1).is_held
    assert "a save was given up: it waited 1 s for the next word of worker 0; training goes on" in caplog.text
    assert "it waited 1 s" in ask(service, Phase.TAKE, taken).lost
    hold(service, name=8)
    assert ask(
        service, Phase.TAKE, [TakenPushes(1, 0, frozenset()), TakenPushes(1, 2, frozenset())], name=8
    ).missing == [1]
    assert not push(service, 0, 1).is_held
    assert "pushes of worker 1 that other servers have" in caplog.text
    # A copy that nobody comes for is let go.
    assert ask(service, Phase.TAKE, hold(service, name=9), name=9).is_done
    wait_until(lambda: service._cuts._cut is None, 20, "the end of the cut")
    assert save(service, checkpoint.begin(tmp_path / "saved"), 9).lost == "it waited 1 s for the next word of worker 0"


def test_a_copy_may_take_its_time(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push(service, 0, 1)
    taken, real = hold(service), saves.copied

    def slowly(holdings: Holdings, keys: Any) -> Any:
        timer = service._cuts._timer
        assert timer is not None
        started(lambda: timer.function(*timer.args))  # its time comes just now
        (late,) = started(lambda: push(service, 1, 1))
        assert late.result(20).is_held  # nobody waits in vain for longer than a call may take
        return real(holdings, keys)

    monkeypatch.setattr(cut, "copied", slowly)
    monkeypatch.setattr(door, "WAIT_S", 0.05)
    assert ask(service, Phase.TAKE, taken).is_done
    assert saved(service, tmp_path) == [1, 0]


def test_of_two_cuts_one_waits(service: Service, tmp_path: Path) -> None:
    taken = hold(service)
    reply = ask(service, Phase.HOLD, name=8)
    assert not reply.is_done
    assert reply.busy.startswith("that of worker 0, which began ")
    (waiting,) = started(lambda: ask(service, Phase.HOLD, name=8, timeout_ms=20_000))
    assert ask(service, Phase.TAKE, taken).is_done
    assert saved(service, tmp_path) == [0, 0]
    assert waiting.result(20).is_done


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_hold_that_comes_late_shuts_no_door(is_dropped: bool, service: Service, tmp_path: Path) -> None:
    held = hold(service)
    if is_dropped:
        ask(service, Phase.DROP)
    else:
        assert ask(service, Phase.TAKE, held).is_done
        saved(service, tmp_path)
    reply = ask(service, Phase.HOLD)
    assert (reply.is_done, bool(reply.busy)) == (False, True)
    assert not service.core.door.is_shut
    hold(service, name=NAME + 1)


def test_a_new_life_in_between_ends_the_cut(service: Service) -> None:
    push(service, 1, 1)
    taken = hold(service)
    declare(service, 1, incarnation=2)
    reply = ask(service, Phase.TAKE, taken, timeout_ms=20_000)
    assert reply.lost == "worker 1 began a new life before all its pushes had come"
    assert hold(service, name=8) == [TakenPushes(1, 0, frozenset()), TakenPushes(2, 0, frozenset())]
    assert ask(service, Phase.TAKE, hold(service, name=8), name=8).is_done


def test_without_memory_the_door_is_shut_until_all_is_written(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    push(service, 1, 1)
    push(service, 0, 1)
    monkeypatch.setattr(saves, "free_bytes", lambda: 0)
    monkeypatch.setattr(door, "WAIT_S", 0.05)
    reply = ask(service, Phase.TAKE, hold(service))
    assert (reply.is_done, reply.is_copied) == (True, False)
    assert "they are written while training waits" in caplog.text
    assert push(service, 1, 2).is_held
    assert saved(service, tmp_path) == [1, 1]
    assert not push(service, 1, 2).is_held


def test_copies_of_changed_rows_need_memory_too(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    push(service, 1, 1)
    holdings, changed = service.core.state.held, [TableKeys(np.arange(1000))]
    needed = saves.SPARE_BYTES + 1000 * (2 * 4 + 24)
    monkeypatch.setattr(saves, "free_bytes", lambda: needed - 1)
    assert saves.copied(holdings, changed) is None
    monkeypatch.setattr(saves, "free_bytes", lambda: needed)
    both = saves.copied(holdings, changed), saves.in_place(holdings, changed)
    push(service, 1, 2)
    assert [next(rows_of(contents))["values"].tolist() for contents in both] == [[[-1, -1]], [[-2, -2]]]


def rows_of(contents: storage.ServerContents | None) -> Iterator[dict[str, Any]]:
    assert contents is not None
    (table,) = contents.tables
    assert isinstance(table, checkpoint.TouchedRows)
    return table.portions


def test_nonsense_is_refused(service: Service) -> None:
    hold(service)
    with pytest.raises(UsageError, match="a cut says what it holds of 2 workers, got 0"):
        ask(service, Phase.TAKE)
    made = Service()
    declare(made, 0, mode="sync")
    with pytest.raises(UsageError, match="between any two steps, without a cut"):
        ask(made, Phase.HOLD)
    made.close()


# All servers of a job.


class Job:
    """Two workers' clients, and the servers."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.job = job_of(len(endpoints))
        self.clients = [
            Client([GrpcTransport(str(one), None) for one in endpoints], worker, self.job) for worker in range(2)
        ]
        for client in self.clients:
            client.declare()
        # A row of each worker on each server.
        self.rows = [
            torch.cat([piece[worker : worker + 1] for piece in keys.route(torch.arange(99), len(endpoints)).pieces()])
            for worker in range(2)
        ]

    def push(self, worker: int, steps: int) -> None:
        found = keys.route(self.rows[worker], self.job.num_servers)
        part = TablePush(0, 1.0, found.grouped, torch.ones(len(found.grouped), 2), found.offsets.tolist())
        self.clients[worker].push(Gradients(steps, [part], steps=steps)).results()

    def push_to_one(self, worker: int, server: int, sequence: int) -> None:
        """A push of a worker that dies before it has sent it to the others."""
        header = ps_pb2.PushRequest.Header(
            caller=self.clients[worker].caller(server),
            sequence=sequence,
            steps=sequence,
            tables=[ps_pb2.PushRequest.Table(table=0, lr=1.0)],
        )
        row = self.rows[worker][server : server + 1].numpy()
        self.clients[worker].transports[server].call("Push", header, [row, np.ones((1, 2), np.float32)], 20.0).result()

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def save(self, folder: Path) -> server_writes.Written:
        return server_writes.write_one_moment(self.clients[0], folder, values_only=False)


class Restarting:
    """A server with a journal that is killed and started again when it is told to copy: it forgets the door."""

    def __init__(self, folder: Path, method: str, num_deaths: int) -> None:
        self._folder = folder
        self._method = method
        self._num_deaths = num_deaths
        self.service = Service(journal=(folder, "OS"))
        self.finished = self.service.finished

    def handle(self, method: str, header: Message, tensors: Tensors) -> Any:
        is_now = method == self._method and (method == "Save" or getattr(header, "phase", 0) == Phase.TAKE)
        if is_now and self._num_deaths:
            self._num_deaths -= 1
            self.service.close()
            self.service = Service(journal=(self._folder, "OS"))
        return self.service.handle(method, header, tensors)

    def close(self) -> None:
        self.service.close()


@pytest.mark.parametrize("method", ["Cut", "Save"])
def test_a_save_begins_again_when_a_server_dies_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    caplog.set_level(logging.INFO)
    restarting = Restarting(tmp_path / "server-1", method, 2)
    with served([Service(journal=(tmp_path / "server-0", "OS")), restarting]) as (endpoints, _):  # type: ignore[list-item]
        job = Job(endpoints)
        for worker in range(2):
            for steps in range(1, 4):
                job.push(worker, steps)
        written = job.save(checkpoint.begin(tmp_path / "saved"))
        assert (written.steps, written.versions) == ((3, 3), (6, 6))
        job.push(1, 4)
        job.close()
    assert "the server was started again" in caplog.text


def test_a_server_that_dies_again_and_again_ends_the_save(tmp_path: Path) -> None:
    restarting = Restarting(tmp_path / "server-1", "Cut", 100)
    with served([Service(journal=(tmp_path / "server-0", "OS")), restarting]) as (endpoints, _):  # type: ignore[list-item]
        job = Job(endpoints)
        with pytest.raises(CheckpointError, match=r"no moment for a save, 5 times: server .*: the server was sta"):
            job.save(checkpoint.begin(tmp_path / "saved"))
        job.push(1, 1)  # no door is shut
        job.close()


def test_a_push_that_one_server_has_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "PUSHES_S", 0.3)
    with served(2) as (endpoints, services):
        job = Job(endpoints)
        job.push_to_one(1, 0, 1)
        with pytest.raises(CheckpointError, match=r"waited 0.3 s for a push of worker 1 that other servers have to"):
            job.save(checkpoint.begin(tmp_path / "saved"))
        job.push(0, 1)  # training goes on
        monkeypatch.setattr(cutting, "PUSHES_S", 20.0)
        (saving,) = started(lambda: job.save(checkpoint.begin(tmp_path / "again")))
        wait_until(lambda: services[1].core.door.is_shut, 20, "the cut")
        job.push_to_one(1, 1, 1)  # as its next life does, which finds it in its outbox
        assert saving.result(20).steps == (1, 1)
        job.close()


def test_two_who_save_at_once_save_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(2) as (endpoints, services):
        job = Job(endpoints)
        for steps in range(1, 4):
            job.push(1, steps)
        folders = [checkpoint.begin(tmp_path / f"saved-{number}") for number in range(2)]
        both = started(
            *(
                lambda client=client, folder=folder: server_writes.write_one_moment(client, folder, values_only=True)
                for client, folder in zip(job.clients, folders, strict=True)
            )
        )
        assert [one.result(60).steps for one in both] == [(0, 3), (0, 3)]
        monkeypatch.setattr(cutting, "IDLE_S", 0.1)
        ask(services[0], Phase.HOLD)
        with pytest.raises(CheckpointError, match=r"waited 0.1 s for another save on server .*: that of worker 0,"):
            job.save(folders[0])
        job.close()


def test_a_worker_waits_at_a_door_for_longer_than_for_a_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(door, "WAIT_S", 0.2)
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "1")
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "1")
    with served(1) as (endpoints, services):
        job = Job(endpoints)
        taken = hold(services[0])
        (waiting,) = started(lambda: job.push(1, 1))
        with pytest.raises(TimeoutError):
            waiting.result(2.5)
        assert ask(services[0], Phase.TAKE, taken).is_done
        waiting.result(20)
        assert services[0].state.rounds.version == 1
        job.close()
    assert "which is being saved (Push)" in caplog.text


@pytest.mark.parametrize("mode", ["sync", "async", "half", "geo"])
def test_a_manifest_says_which_step_of_each_worker_it_holds(tmp_path: Path, mode: str) -> None:
    with served(2) as (endpoints, _), joined(endpoints, strategy=strategy(mode)) as one:
        one.train(3)
        saved = one.fleet.save_persistables(tmp_path / "saved")
        copy = one.fleet.save_inference_model(tmp_path / "copy")
        dense = {name: value.detach().clone() for name, value in one.model.named_parameters() if value.numel()}
    assert isinstance(saved, Path)
    assert isinstance(copy, Path)
    manifest, index = checkpoint.read_manifest(saved), checkpoint.read_inference(copy)
    assert manifest.steps == (3,)
    assert manifest.versions == (manifest.version,) * 2
    for name, value in dense.items():
        assert np.array_equal(index.dense[name], value.numpy()), name
