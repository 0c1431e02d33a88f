"""A queue whose workers come and go: what one hands back others get, and an epoch ends when all of it is trained on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import fleet
from fleet.data.queue import ServerPieces
from fleet.data.reading import from_files
from fleet.errors import NotSupportedError
from fleet.ps.durable import durability
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.initializers import Constant
from fleet.ps.job.rules import SGD
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.meetings.pieces import Extent, Key
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.life.membership import HandedBack, Membership
from fleet.ps.worker.life.progress import ScriptProgress
from fleet.ps.worker.modes.base import Setup
from fleet.ps.worker.modes.sync import Sync
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.sending.gradients import Gradients
from fleet.strategy.parameter_server import ASyncConfigs
from support.data.numbered import SCHEMA, Lines, ids, write
from support.durable.server_state import everything

pytestmark = pytest.mark.timeout(60)
TABLES = (TableSpec("ads", 1, SGD(), Constant(0.0), AlwaysEntry()),)
JOB = JobSpec(3, 1, "async", tables=TABLES, is_elastic=True)
NUM = 4


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(journal=(tmp_path / "server-0", "OS"))
    yield made
    if not made.core.is_closed:
        made.close()


class Life:
    """One life of a worker, which takes pieces."""

    def __init__(self, service: Service, worker: int, taken: int = 0, job: JobSpec = JOB) -> None:
        self.client = Client([LocalTransport(service)], worker, job)
        self.client.declare()
        self.pieces = ServerPieces(lambda: self.client, "files/0", Membership())
        self.pieces.begin(0, 0, NUM, (), taken)

    def take(self, number: int) -> list[int | None]:
        return [self.pieces.take(0) for _ in range(number)]

    def leave(self, num_done: int, rows_taken: int = 0) -> None:
        back = self.pieces.back(0, num_done, rows_taken)
        assert isinstance(back, HandedBack)
        self.client.changes.leave(back=[back])


def test_what_a_worker_hands_back_is_for_the_others_with_the_rows_that_it_has_trained_on(service: Service) -> None:
    first, second = Life(service, 0), Life(service, 1)
    assert first.take(3) == [0, 1, 2]
    assert second.take(2) == [3, None]
    first.leave(1, 7)
    assert second.pieces.wait(0)
    assert second.take(3) == [1, 2, None]
    assert [second.pieces.rows_taken(0, piece) for piece in (1, 2, 3)] == [7, 0, 0]
    assert not second.pieces.wait(0)


def test_the_next_worker_of_a_number_begins_where_nobody_was(service: Service) -> None:
    first = Life(service, 0)
    first.take(2)
    first.leave(1)
    again = Life(service, 0)
    assert (again.client.resumed_updates, again.client.resumed_position) == (0, b"")
    assert again.take(4) == [1, 2, 3, None]


def test_an_epoch_is_over_when_all_is_trained_on(service: Service) -> None:
    first, second = Life(service, 0), Life(service, 1)
    assert first.take(4) == [0, 1, 2, 3]
    assert second.take(1) == [None]
    ends: list[bool] = []
    waiting = threading.Thread(target=lambda: ends.append(second.pieces.wait(0)))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive(), "worker 0 has not trained on what it was handed"
    assert not first.pieces.wait(0)
    waiting.join(20)
    assert ends == [False]


@pytest.mark.parametrize("is_snapshot", [False, True])
def test_the_last_batch_of_what_there_was_is_the_same_in_the_next_life(
    is_snapshot: bool, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no rows of a piece that was handed out later: a batch that is made again would be another."""
    first, second = Life(service, 0), Life(service, 1)
    assert (first.take(2), second.take(3)) == ([0, 1], [2, 3, None])
    assert first.take(1) == [None]
    second.leave(1)
    assert first.pieces.wait(0)
    assert first.take(1) == [3]
    first.client.close()
    service.close()
    if is_snapshot:
        monkeypatch.setattr(durability, "SNAPSHOT_BYTES", 0)
    for _ in range(2):
        recovered = Service(journal=(tmp_path / "server-0", "OS"))
        if is_snapshot:
            assert recovered.core.durability is not None
            recovered.core.durability._write_snapshot()
        again = Life(recovered, 0, taken=1)
        assert again.take(2) == [1, None], "there the former life made a batch of what was left"
        assert again.pieces.wait(0)
        assert again.take(2) == [3, None], "and it may have made one here"
        assert again.pieces.wait(0)
        again.client.close()
        recovered.close()


class Steps:
    """A server of a synchronous job, as its workers ask it."""

    def __init__(self, folder: Path, server: int = 0) -> None:
        self.folder, self.server = folder, server
        self.service = Service(journal=(folder, "OS"))
        self.numbers = dict.fromkeys(range(3), 0)
        self.callers: dict[int, ps_pb2.Caller] = {}

    def ask(self, method: str, worker: int, **fields: Any) -> Any:
        self.numbers[worker] += 1
        header = getattr(ps_pb2, f"{method}Request").Header(caller=self.callers[worker], **fields)
        header.sequence = self.numbers[worker]
        return self.service.handle(method, header, ())[0]

    def declare(self, worker: int) -> None:
        job = replace(JOB, mode="sync", num_servers=2).to_json()
        caller = ps_pb2.Caller(worker=worker, incarnation=1)
        header = ps_pb2.DeclareRequest.Header(caller=caller, job=job, server_index=self.server, life=worker + 1)
        reply: Any = self.service.handle("Declare", header, ())[0]
        self.callers[worker] = ps_pb2.Caller(worker=worker, incarnation=1, instance=reply.instance)

    @property
    def version(self) -> int:
        return self.service.state.rounds.version


def test_a_step_is_made_with_those_that_were_there_when_it_began(tmp_path: Path) -> None:
    job = Steps(tmp_path / "server-0")
    for worker in range(3):
        job.declare(worker)
    assert job.ask("Join", 0).step == 0
    assert job.ask("Join", 1).step == 0
    job.ask("Push", 0, step=0)
    assert job.ask("Join", 2).step == 1, "step 0 has begun"
    before = everything(job.service)
    job.service.close()
    job.service = Service(journal=(tmp_path / "server-0", "OS"))  # the push is lost with its life, and comes again
    assert everything(job.service) == before
    assert job.ask("Join", 2).step == 1
    job.ask("Push", 1, step=0)
    assert job.version == 0
    job.ask("Push", 0, step=0)
    assert job.version == 1
    job.ask("Push", 0, step=1)
    job.ask("Push", 1, step=1)
    assert job.version == 1
    job.ask("Join", 2, is_out=True)
    assert job.version == 2, "nobody waits for worker 2"
    job.ask("Push", 0, step=2)
    job.ask("Leave", 1, is_drained=True)
    assert job.version == 3
    job.service.close()


def test_other_servers_make_a_step_with_those_that_server_0_has_named(tmp_path: Path) -> None:
    job = Steps(tmp_path / "server-1", server=1)
    for worker in range(2):
        job.declare(worker)
    job.ask("Join", 0)
    job.ask("Push", 0, step=0)
    assert job.version == 0, "server 0 may have waited for worker 1 too, whose word has not come here"
    job.ask("Push", 1, step=0, participants=[0, 1])
    assert job.version == 1
    job.service.close()


def test_a_job_is_over_when_a_worker_is_done_and_not_when_all_are_told_to_leave(service: Service) -> None:
    first, second = Life(service, 0), Life(service, 1)
    first.leave(0)
    second.leave(0)
    assert not service.finished.is_set()
    third = Life(service, 2)
    third.client.changes.leave()
    assert service.finished.is_set()


def test_nobody_waits_for_a_worker_that_has_ended_in_order_inside_an_epoch(service: Service) -> None:
    first, second = Life(service, 0), Life(service, 1)
    assert (first.take(2), second.take(3)) == ([0, 1], [2, 3, None])
    first.client.changes.leave()
    ends: list[bool] = []
    waiting = threading.Thread(target=lambda: ends.append(second.pieces.wait(0)), daemon=True)
    waiting.start()
    waiting.join(10)
    assert ends == [False]


def test_what_a_worker_says_of_its_epoch_counts_also_where_a_former_life_was_idle(service: Service) -> None:
    """That life had batches in hand whose gradients were to add up, when the queue was empty."""
    first, second = Life(service, 0), Life(service, 1)
    assert (first.take(2), second.take(2), first.take(1)) == ([0, 1], [2, 3], [None])
    queues, key = service.state.pieces, Key("files/0", 0, 0)
    queues.change(0, key, 3, Extent(0, 0), is_idle=True)
    again = Life(service, 0, taken=1)
    again.leave(1)
    assert second.take(2) == [1, None]


def test_a_batch_that_a_second_life_has_cut_short_is_the_same_in_the_third(service: Service) -> None:
    first = Life(service, 0)
    assert first.take(2) == [0, 1]
    second = Life(service, 0)
    assert second.take(3) == [0, 1, None]
    assert second.pieces.wait(0)
    assert second.take(1) == [2]
    third = Life(service, 0, taken=1)
    assert third.take(2) == [1, None], "the second life made a batch of what was left there"
    assert third.pieces.wait(0)
    assert third.take(1) == [2]


class Job:
    """What readers use of a Fleet."""

    is_server = is_collective = staticmethod(lambda: False)

    def __init__(self, progress: ScriptProgress, client: Client) -> None:
        self.progress = progress
        self.worker_client = lambda _: client


class Script:
    """A life of a worker that reads the files of `folder`, and makes no step."""

    def __init__(self, service: Service, worker: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = Client([LocalTransport(service)], worker, JOB)
        self.client.declare()
        progress = ScriptProgress(folder.with_name(f"worker-{worker}"))
        monkeypatch.setattr(from_files, "fleet", Job(progress, self.client))
        monkeypatch.setattr(from_files, "_num_made", {})
        self.batches = fleet.data.files(str(folder), SCHEMA, 2, queue=True, format=Lines())
        policy = SimpleNamespace(flush=lambda: None, step_aside=lambda: None, take_part=lambda **_: None)
        assert progress.membership is not None
        self.membership = progress.membership
        one = SimpleNamespace(has_caught_up=True, policy=policy, go_on_at=lambda _: None)
        self.membership.join(one, lambda back: self.client.changes.leave(back=back))


def test_a_life_that_leaves_before_it_has_begun_hands_back_what_a_former_one_had_no_step_on(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one was idle: the gradients of its batches were to add up, and the queue was empty."""
    monkeypatch.setenv("FLEET_ELASTIC", "1")
    made = tmp_path / "data"
    made.mkdir()
    write(made, [2, 2, 2])
    former = Script(service, 0, made, monkeypatch)
    had = [ids(batch) for batch in former.batches]
    assert sorted(one for batch in had for one in batch) == [0, 1, 2, 3, 4, 5]
    again = Script(service, 0, made, monkeypatch)
    again.membership.is_told = True
    with pytest.raises(SystemExit):
        next(iter(again.batches))
    assert [ids(batch) for batch in Script(service, 1, made, monkeypatch).batches] == had


@pytest.mark.parametrize("is_snapshot", [False, True])
def test_an_epoch_that_is_begun_again_by_a_call_that_was_late_changes_nothing(
    is_snapshot: bool, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Life(service, 0)
    assert first.take(2) == [0, 1]
    if is_snapshot:
        monkeypatch.setattr(durability, "SNAPSHOT_BYTES", 0)
        assert service.core.durability is not None
        service.core.durability._write_snapshot()
    header = ps_pb2.TakeRequest.Header(caller=first.client.caller(0), queue="files/0", total=NUM)
    before = everything(service)
    service.close()
    recovered = Service(journal=(tmp_path / "server-0", "OS"))
    reply: Any = recovered.handle("Take", header, ())[0]
    assert list(reply.pieces) == [0, 1]
    assert not list(reply.breaks), "its batches may well have rows of piece 1 and of the next"
    assert everything(recovered) == before
    recovered.close()


def test_sync_mode_refuses_a_step_without_a_batch_of_the_queue_and_loads_nothing_for_a_step_made_again() -> None:
    service = Service()
    dense = DenseSpec((SGD(),), (("w", (1,)),), (DenseBlock("w", 0, 1, 0, 0),))
    clients = [Client([LocalTransport(service)], worker, replace(JOB, mode="sync", dense=dense)) for worker in (0, 1)]
    for client in clients:
        client.declare()
    clients[0].start([[np.zeros(1, np.float32)]])
    flats = [FlatParameters([("w", torch.nn.Parameter(torch.zeros(1)), 0)], dense.blocks) for _ in clients]
    first, second = (
        Sync(Setup(client, flat, torch.device("cpu"), 0, ASyncConfigs()))
        for client, flat in zip(clients, flats, strict=True)
    )
    one, two = (Gradients(0, [], [[np.ones(1, np.float32)]], {0: 1.0}, steps=steps) for steps in (1, 2))
    with pytest.raises(NotSupportedError, match="queue=True"):
        first.step(one, ())
    assert first.take_part() == 0
    first.step(one, ())
    assert second.take_part(loads=False) == 1
    assert flats[1].value_buffer[0] == 0.0
    second.step_aside()
    first.step(two, ())
    assert second.take_part() == 2
    assert flats[1].value_buffer[0] == -2.0
    service.close()
