"""Changes of several servers: each is made once on all of them, whoever dies in between, and whatever is full."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fleet.errors import CheckpointError, CommunicationError, DeadlineError, FleetError
from fleet.jobfiles.kept import DRAINED
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.wire.status import unreachable
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients
from fleet.runtime.saved import saving
from support.processes import wait_until
from support.worker.two_servers import ADS, Servers, push_rows

LIMIT_S = 30.0
SIZE = 4
LARGE = TableSpec("ads", 16, rules.SGD(), initializers.Constant(0.0), entries.AlwaysEntry(), memory=1 << 20)
pytestmark = pytest.mark.timeout(120)


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
    remove, two.client._outbox.remove = two.client._outbox.remove, lambda *_: None  # it is killed just now
    two.client.changes.leave()
    assert remove is not None
    servers.is_away = lambda _, __: False
    step = push_dense(one.client, 1)
    wait_until(lambda: servers.versions == [2, 1], LIMIT_S, "the step on server 0, which goes on without worker 1")
    again = servers.life(1)
    step.results()
    assert servers.versions == [2, 2]
    again.client.changes.leave()
    push_dense(one.client, 2).results()
    one.client.changes.leave()
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
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(CheckpointError, match="begin anew: remove it on all"),
    ):
        servers.life(1)
    awaited = (
        "worker 1 waits for another worker to finish what it has begun: the servers are at different steps: [0, 1]"
    )
    assert awaited in caplog.text


def test_a_drained_worker_has_left_when_all_servers_know_it(made: Callable[[JobSpec], Servers]) -> None:
    servers = made(JobSpec(2, 2, "async", tables=(ADS,), is_elastic=True))
    worker = servers.life(1)
    servers.is_away = lambda number, method: number == 1 and method == "Leave"
    with pytest.raises(CommunicationError, match="killed"):
        worker.client.changes.leave(back=[])
    worker.client.close()
    mark = servers.folder / "worker-1" / DRAINED
    assert not mark.exists()
    servers.is_away = lambda _, __: False
    with pytest.raises(SystemExit):
        servers.life(1)
    assert mark.exists()
    assert [one.state.rounds.num_present for one in servers.services] == [0, 0]
