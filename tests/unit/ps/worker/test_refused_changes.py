"""What servers refuse is no reason why a worker's next life could not join; what one has made, all must make."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
import torch

from fleet.errors import CommunicationError, UsageError
from fleet.ps.job.spec import JobSpec
from fleet.ps.steps import ledger
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling import outbox
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.runtime.saved import saving
from support.worker.two_servers import ADS, Servers, push_rows, shrink_on_one

pytestmark = pytest.mark.timeout(120)


def test_a_push_that_is_refused_for_good_does_not_keep_the_next_life_out(made: Callable[[JobSpec], Servers]) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    found = route(torch.arange(8), 2)
    n = len(found.grouped)
    grads = torch.full((n, 2), float("nan"))
    part = TablePush(0, 1.0, found.grouped, grads, found.offsets.tolist(), None, torch.zeros(n), torch.zeros(n))
    with pytest.raises(UsageError, match="hold a NaN"):
        worker.client.push(Gradients(0, [part], steps=1)).results()
    again = servers.life()
    push_rows(again.client, 0, range(8), shows=True).results()
    assert servers.shows() == {8.0}


def test_lives_that_join_find_servers_that_wait_for_a_load(made: Callable[[JobSpec], Servers]) -> None:
    servers = made(JobSpec(1, 2, "sync", tables=(ADS,)))
    worker = servers.life()
    push_rows(worker.client, 0, range(8), shows=True, sync=True).results()
    servers.services[1].core.failure = "a checkpoint was loaded, but could not be kept: No space left on device"
    for _ in range(2):
        again = servers.life()  # the former's push may wait for its step
    with pytest.raises(CommunicationError, match="could not be kept"):
        push_rows(again.client, 1, range(8), shows=True, sync=True).results()


def test_a_change_that_failed_half_way_is_whole_before_any_push(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers give up a number that is missing before many pushes: it would count as made."""
    monkeypatch.setattr(ledger, "WINDOW", 3)
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    push_rows(worker.client, 0, range(8), shows=True).results()
    servers.is_away = lambda number, method: number == 1 and method == "Shrink"
    with pytest.raises(CommunicationError, match="killed"):
        saving.shrink(worker, None, decay=0.5)
    with pytest.raises(CommunicationError, match="killed"):
        push_rows(worker.client, 1, range(8)).results()
    assert servers.shows() == {4.0, 8.0}
    servers.is_away = lambda _, __: False
    for step in range(1, 6):
        push_rows(worker.client, step, range(8)).results()
    assert servers.shows() == {4.0 + 5}  # each push shows its keys once
    assert saving.shrink(worker, None, decay=0.5) == 0
    assert servers.shows() == {4.5}


def test_a_change_that_cannot_be_written_down_again_is_not_forgotten(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    push_rows(worker.client, 0, range(8), shows=True).results()
    shrink_on_one(servers, worker)
    with monkeypatch.context() as patch, pytest.raises(UsageError, match="make room on that disk"):
        patch.setattr(outbox, "write_all", full)
        saving.shrink(worker, None, decay=0.5)
    assert servers.shows() == {4.0, 8.0}
    assert saving.shrink(worker, None, decay=0.5) == 0
    assert servers.shows() == {4.0}


def full(_: int, __: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
