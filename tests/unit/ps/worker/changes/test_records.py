"""Rows of the table of changes that one server alone cannot show: what they leave in each journal, and replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.ps.job.spec import JobSpec
from fleet.ps.journal.records import Kind
from fleet.ps.journal.snapshots import newest_snapshot
from fleet.ps.proto import ps_pb2
from fleet.ps.worker.calling import step_norm
from fleet.runtime.saved import saving
from support.durable.server_state import everything, kinds_of
from support.parity.training import in_threads
from support.worker.two_servers import ADS, Servers, push_rows

pytestmark = pytest.mark.timeout(120)


def lsns(servers: Servers) -> list[int]:
    return [one.core.durability.counts()["record"] for one in servers.services]  # type: ignore[union-attr]


def written(servers: Servers, after: list[int]) -> list[set[Kind]]:
    """The kinds of the records of each journal behind some."""
    return [kinds_of(servers.folder / f"server-{number}", lsn) for number, lsn in enumerate(after)]


def assert_replayed(servers: Servers) -> None:
    """Servers that are started again are what they were."""
    before = [everything(one) for one in servers.services]
    servers.restart()
    assert [everything(one) for one in servers.services] == before


def test_a_load_is_kept_as_a_snapshot_and_made_once(made: Callable[[JobSpec], Servers], tmp_path: Path) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker: Any = servers.life()
    worker.policy = SimpleNamespace(flush=lambda: None, trains_locally=False)
    worker.restart_at, worker.send_kept = lambda _: None, lambda: None
    push_rows(worker.client, 0, range(8), shows=True).results()
    saving.save(worker, tmp_path / "saved")
    push_rows(worker.client, 1, range(8), shows=True).results()
    before = lsns(servers)
    saving.load(worker, tmp_path / "saved")
    assert written(servers, before) == [{Kind.LOAD}] * 2
    after = lsns(servers)
    kept = [newest_snapshot(servers.folder / f"server-{number}") for number in (0, 1)]
    push_rows(worker.client, 2, range(8), shows=True).results()
    number = worker.client.sequence - 1

    def load(server: int) -> Any:
        caller = worker.client.caller(server)
        header = ps_pb2.LoadRequest.Header(caller=caller, folder=str(tmp_path / "saved"), sequence=number)
        return servers.services[server].handle("Load", header, ())[0]

    first = [load(server) for server in (0, 1)]  # a word of it that comes late
    assert sum(one.rows for one in first) == 8
    assert servers.shows() == {16.0}
    assert written(servers, after) == [{Kind.PUSH}] * 2
    assert [newest_snapshot(servers.folder / f"server-{number}") for number in (0, 1)] == kept
    assert_replayed(servers)
    assert [load(server) for server in (0, 1)] == first
    assert servers.shows() == {16.0}


@pytest.mark.parametrize("term", [0, 1], ids=["STEP", "COMPLETE"])
def test_a_step_that_comes_by_its_norm_is_recorded_and_done_once(made: Callable[[JobSpec], Servers], term: int) -> None:
    """`term`: as where servers have copies, so that pushes are recorded when they come."""
    servers = made(JobSpec(2, 2, "sync", tables=(ADS,), clip_norm=1.0))
    for one in servers.services:
        one.core.term = term
    clients = [servers.life(worker).client for worker in (0, 1)]
    before = lsns(servers)
    pushed = [push_rows(client, 0, range(8), shows=True) for client in clients]
    for one in pushed:
        one.results()
    assert written(servers, before) == [{Kind.COLLECT} if term else set()] * 2
    in_threads(
        *(lambda client=c, sent=p: step_norm.settle(client, 0, sent) for c, p in zip(clients, pushed, strict=True))
    )
    assert written(servers, before) == [{Kind.COLLECT, Kind.COMPLETE} if term else {Kind.STEP}] * 2
    after = lsns(servers)
    for client, sent in zip(clients, pushed, strict=True):
        step_norm.settle(client, 0, sent)  # a word of it that comes late
    assert (servers.versions, lsns(servers)) == ([1, 1], after)
    assert_replayed(servers)
    for client, sent in zip(clients, pushed, strict=True):
        step_norm.settle(client, 0, sent)
    assert servers.versions == [1, 1]


def test_a_step_that_a_leave_completes_is_recorded(made: Callable[[JobSpec], Servers]) -> None:
    servers = made(JobSpec(2, 2, "sync", tables=(ADS,)))
    clients = [servers.life(worker).client for worker in (0, 1)]
    before = lsns(servers)
    pushed = push_rows(clients[0], 0, range(8), shows=True, sync=True)
    clients[1].changes.leave()
    pushed.results()
    assert written(servers, before) == [{Kind.LEAVE, Kind.STEP}] * 2
    assert_replayed(servers)
    assert servers.versions == [1, 1]
