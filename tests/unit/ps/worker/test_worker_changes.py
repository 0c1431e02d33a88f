"""Changes of several servers: each is made once on all of them, whoever dies in between, and whatever is full."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import CommunicationError, DeadlineError, FleetError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.server.service import Service
from fleet.ps.wire.status import unreachable
from fleet.ps.wire.transport import Answer, LocalTransport
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.life.progress import ScriptProgress
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.runtime.saved import saving
from support.processes import wait_until

LIMIT_S = 30.0
SIZE = 4
ADS = TableSpec(
    "ads", 2, rules.SGD(), initializers.Constant(0.0), entries.ShowClickEntry("show", "click", threshold=0.0)
)
LARGE = TableSpec("ads", 16, rules.SGD(), initializers.Constant(0.0), entries.AlwaysEntry(), memory=1 << 20)
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "FLEET_DURABLE": str(tmp_path),
        "FLEET_TABLE_DIR": str(tmp_path / "tables"),
        "FLEET_RECOVERY_TIMEOUT_S": "0.3",
        "FLEET_STEP_TIMEOUT_S": "20",
    }.items():
        monkeypatch.setenv(name, value)


class Remote(LocalTransport):
    """A server on a network, which may be away: a call is under way when `call` returns."""

    def __init__(self, servers: Servers, number: int) -> None:
        super().__init__(servers.services[number], f"server {number}")
        self._servers, self._number = servers, number

    def call(self, method: str, header: Any, tensors: Any, timeout_s: float) -> Answer:  # noqa: ARG002
        servers, number = self._servers, self._number
        if servers.is_away(number, method):
            answer: Answer = Future()
            answer.set_exception(unreachable(f"server {number}", method, "killed"))
            return answer
        return servers.pool.submit(servers.services[number].handle, method, header, tensors)


class Servers:
    """Two servers with journals, and workers whose lives come and go."""

    def __init__(self, folder: Path, job: JobSpec) -> None:
        self.folder, self.job = folder, job
        self.pool = ThreadPoolExecutor(32)
        self.is_away: Callable[[int, str], bool] = lambda _, __: False
        self.services = self._begun()

    def _begun(self) -> list[Service]:
        return [Service(journal=(self.folder / f"server-{number}", "OS")) for number in (0, 1)]

    def restart(self) -> None:
        for one in self.services:
            one.close()
        self.services = self._begun()

    def life(self, worker: int = 0) -> Any:
        """A worker's life, from its declaration on."""
        progress = ScriptProgress(self.folder / f"worker-{worker}")
        client = Client([Remote(self, 0), Remote(self, 1)], worker, self.job, answers=progress.answers)
        client.declare()
        return SimpleNamespace(client=client, progress=progress, policy=None)

    @property
    def versions(self) -> list[int]:
        return [one.state.rounds.version for one in self.services]

    def shows(self) -> set[float]:
        found = [one.state.held.tables[0].export(0, 64)["shows"] for one in self.services]
        return set(np.concatenate(found).tolist())

    def rows(self, keys: range) -> list[float]:
        found = [one.state.held.tables[0].export(0, 64) for one in self.services]
        known = {int(key): row for one in found for key, row in zip(one["keys"], one["values"], strict=True)}
        return [float(known[key].view(np.float32)[0]) for key in keys]

    def close(self) -> None:
        for one in self.services:
            one.close()
        self.pool.shutdown()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[JobSpec], Servers]]:
    servers: list[Servers] = []

    def make(job: JobSpec) -> Servers:
        servers.append(Servers(tmp_path, job))
        return servers[-1]

    yield make
    for one in servers:
        one.close()


def push_rows(
    client: Client, step: int, keys: range, *, width: int = 2, shows: bool = False, sync: bool = False
) -> Any:
    found = route(torch.tensor(keys), 2)
    n = len(found.grouped)
    counted = (torch.full((n,), 8.0), torch.zeros(n)) if shows else (None, None)
    part = TablePush(0, 1.0, found.grouped, torch.full((n, width), -1.0), found.offsets.tolist(), None, *counted)
    return client.push(Gradients(step, [part], steps=step + 1), is_awaited=sync)


@pytest.mark.parametrize("loses", ["request", "answer"])
@pytest.mark.parametrize("dies", ["the server", "the worker"])
def test_a_shrink_decays_once_whoever_dies_while_it_is_made(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch, loses: str, dies: str
) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    push_rows(worker.client, 0, range(8), shows=True).results()
    assert servers.shows() == {8.0}
    if loses == "answer":
        handle = servers.services[1].handle

        def lost(method: str, *more: Any) -> Any:
            answer = handle(method, *more)
            if method == "Shrink":
                raise unreachable("server 1", method, "killed")
            return answer

        monkeypatch.setattr(servers.services[1], "handle", lost)
    else:
        servers.is_away = lambda number, method: number == 1 and method == "Shrink"
    with pytest.raises(CommunicationError, match="killed"):
        saving.shrink(worker, None, decay=0.5)
    assert servers.shows() == ({4.0} if loses == "answer" else {4.0, 8.0})
    servers.is_away = lambda _, __: False
    if dies == "the server":
        servers.restart()
        worker.client.close()
        worker = servers.life()
    else:
        monkeypatch.undo()
        monkeypatch.setenv("FLEET_DURABLE", str(servers.folder))
        worker = servers.life()
    assert servers.shows() == {4.0}
    assert saving.shrink(worker, None, decay=0.5) == 0  # the script comes to the same line
    assert servers.shows() == {4.0}
    assert saving.shrink(worker, None, decay=0.5) == 0  # and to another one
    assert servers.shows() == {2.0}


def test_a_shrink_that_failed_half_way_goes_on_where_it_is_asked_for_again(made: Callable[[JobSpec], Servers]) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    push_rows(worker.client, 0, range(8), shows=True).results()
    servers.is_away = lambda number, method: number == 1 and method == "Shrink"
    for _ in range(2):
        with pytest.raises(CommunicationError, match="killed"):
            saving.shrink(worker, None, decay=0.5)
    assert servers.shows() == {4.0, 8.0}
    servers.is_away = lambda _, __: False
    with pytest.raises(FleetError, match="there is no table 'nothing'"):
        saving.shrink(worker, "nothing", decay=0.5)  # another one: the former is brought to its end first
    assert servers.shows() == {4.0}
    assert saving.shrink(worker, None, decay=0.5) == 0
    assert servers.shows() == {2.0}
    again = servers.life()
    for _ in range(2):
        assert saving.shrink(again, None, decay=0.5) == 0  # what the former life had asked for
    with pytest.raises(FleetError, match="there is no table 'nothing'"):
        saving.shrink(again, "nothing", decay=0.5)
    assert saving.shrink(again, None, decay=0.5) == 0
    assert servers.shows() == {2.0}


def dense_job() -> JobSpec:
    blocks = (DenseBlock("w", 0, SIZE, 0, 0), DenseBlock("w", SIZE, 2 * SIZE, 1, 0))
    return JobSpec(2, 2, "sync", dense=DenseSpec((rules.SGD(),), (("w", (2 * SIZE,)),), blocks))


def push_dense(client: Client, step: int) -> Any:
    grads: list[list[Any]] = [[np.ones(SIZE, np.float32)]] * 2
    return client.push(Gradients(step, [], grads, {0: 0.1}, steps=step + 1), is_awaited=True)


def test_a_worker_that_dies_while_it_leaves_has_left(made: Callable[[JobSpec], Servers]) -> None:
    servers = made(dense_job())
    one, two = servers.life(0), servers.life(1)
    one.client.start([[np.zeros(SIZE, np.float32)]] * 2)
    for sent in [push_dense(worker.client, 0) for worker in (one, two)]:
        sent.results()
    servers.is_away = lambda number, method: number == 1 and method == "Leave"
    remove, two.client._outbox.remove = two.client._outbox.remove, lambda: None  # it is killed in this moment
    two.client.leave()
    assert remove is not None
    servers.is_away = lambda _, __: False
    step = push_dense(one.client, 1)
    wait_until(lambda: servers.versions == [2, 1], LIMIT_S, "the step on server 0, which goes on without worker 1")
    again = servers.life(1)
    step.results()
    assert servers.versions == [2, 2]
    again.client.leave()
    push_dense(one.client, 2).results()
    one.client.leave()
    assert all(service.finished.is_set() for service in servers.services)


def test_a_step_that_one_server_had_no_room_for_is_completed_after_any_restart(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = made(JobSpec(2, 2, "sync", tables=(LARGE,)))
    workers = [servers.life(worker) for worker in (0, 1)]

    def step(number: int) -> list[Any]:
        keys = range(number * 4000, (number + 1) * 4000)
        return [push_rows(worker.client, number, keys, width=16, sync=True) for worker in workers]

    for number in range(4):
        for sent in step(number):
            sent.results()
    folder = servers.services[1].state.held._table_dir.path / "table-0"  # type: ignore[union-attr]
    folder.rename(folder.with_name("away"))  # as a full disk: no new file can be made
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "1")
    number, found = 4, 0
    while not found:
        for sent in step(number):
            try:
                sent.results()
            except (CommunicationError, DeadlineError):
                found += 1
        number += 1
    for worker in (0, 1):  # lives that begin while nothing has changed: neither must give the former's push up
        with pytest.raises((CommunicationError, DeadlineError)):
            servers.life(worker)
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "20")
    assert servers.versions == [number, number - 1]
    folder.with_name("away").rename(folder)
    for worker in workers:
        worker.client.close()
    servers.restart()  # the same command is run again
    with ThreadPoolExecutor(2) as pool:
        workers = list(pool.map(servers.life, (0, 1)))
    assert servers.versions == [number, number]
    for sent in step(number):
        sent.results()
    assert set(servers.rows(range((number + 1) * 4000))) == {1.0}


def test_a_worker_that_finds_servers_apart_says_so_while_it_waits(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "0.2")
    servers = made(dense_job())
    one, two = servers.life(0), servers.life(1)
    one.client.start([[np.zeros(SIZE, np.float32)]] * 2)
    servers.is_away = lambda number, method: number == 1 and method == "Push"
    for sent in [push_dense(worker.client, 0) for worker in (one, two)]:
        with pytest.raises(CommunicationError, match="killed"):
            sent.results()
    servers.is_away = lambda _, __: False
    assert servers.versions == [1, 0]
    monkeypatch.setenv("FLEET_RECOVERY_TIMEOUT_S", "1.5")
    (servers.folder / "worker-1").rename(servers.folder / "gone")  # its machine is lost: nobody can mend it
    with caplog.at_level(logging.WARNING), pytest.raises(CommunicationError, match="load one checkpoint"):
        servers.life(1)
    awaited = (
        "worker 1 waits for another worker to finish what it has begun: the servers are at different steps: [0, 1]"
    )
    assert awaited in caplog.text
