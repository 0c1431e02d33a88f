"""A worker whose machine is lost while another one has a synchronous step done: twice, or when it has just left."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fleet.errors import CommunicationError
from fleet.ps.job.spec import JobSpec
from fleet.ps.worker.calling import changes, step_norm
from support.processes import wait_until
from support.worker.two_servers import ADS, Servers, push_rows

LIMIT_S = 30.0
pytestmark = pytest.mark.timeout(120)


def test_a_step_is_done_with_pushes_of_the_same_lives_on_all_servers(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server 0 has said the norm of a push that is withdrawn, server 1 that of the push in its place."""
    servers = made(JobSpec(2, 2, "sync", tables=(ADS,)))
    told: list[int] = []
    for number, service in enumerate(servers.services):
        service.core.term = 1  # as where servers have copies: pushes are kept, and a step is done in two rounds

        def handle(method: str, *more: Any, number: int = number, real: Any = service.handle) -> Any:
            answer = real(method, *more)
            told.extend([number] if method == "Norm" else [])
            return answer

        monkeypatch.setattr(service, "handle", handle)

    def push_without(cut: int) -> None:
        """A new life of worker 0 pushes, and its machine burns; it has not reached one of the servers."""
        lost = servers.life(0)
        servers.is_away = lambda number, method: (number, method) == (cut, "Push")
        with pytest.raises(CommunicationError, match="killed"):
            push_rows(lost.client, 0, range(8), shows=True).results()
        servers.is_away = lambda _, __: False
        shutil.rmtree(servers.folder / "worker-0")

    other = servers.life(1)
    pushed = push_rows(other.client, 0, range(8), shows=True)
    pushed.results()
    push_without(1)
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(step_norm.settle, other.client, 0, pushed)
        wait_until(lambda: told == [0], LIMIT_S, "the first norm of server 0")
        push_without(0)
        wait_until(lambda: 1 in told, LIMIT_S, "the norm of server 1")
        push_rows(servers.life(0).client, 0, range(8), shows=True).results()
        settled.result(LIMIT_S)
    assert servers.versions == [1, 1]
    assert servers.shows() == {16.0}


def test_no_step_waits_for_one_that_had_left_when_its_machine_was_lost(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server 1 has made the step without it; server 0 is about to, when the next life declares itself there."""
    servers = made(JobSpec(2, 2, "sync", tables=(ADS,)))
    monkeypatch.setattr(changes, "keeps_pushes", lambda _: True)
    for service in servers.services:
        service.core.term = 1  # as where servers have copies
    other, leaving = servers.life(1), servers.life(0)
    pushed = push_rows(other.client, 0, range(8), shows=True)
    pushed.results()
    leaving.client.changes.leave()
    shutil.rmtree(servers.folder / "worker-0")
    monkeypatch.setenv("FLEET_LIFE", "1")
    has_asked, may_tell = threading.Event(), threading.Event()

    def is_away(number: int, method: str) -> bool:
        """Whether this is the word to server 0 that all servers have all pushes, before it may come."""
        if (number, method) != (0, "Norm") or not threading.current_thread().name.startswith("settle"):
            return False
        was_asked = has_asked.is_set()
        has_asked.set()
        return was_asked and not may_tell.is_set()

    servers.is_away = is_away
    with ThreadPoolExecutor(1, "settle") as settling, ThreadPoolExecutor(1) as pool:
        settled = settling.submit(step_norm.settle, other.client, 0, pushed)
        wait_until(lambda: servers.versions == [0, 1], LIMIT_S, "the step on server 1")
        life = pool.submit(servers.life)
        ledger = servers.services[0].state.ledger
        wait_until(lambda: ledger.incarnation(0) == 2, LIMIT_S, "the next life to declare itself")
        may_tell.set()
        settled.result(LIMIT_S)
        life.result(LIMIT_S).client.changes.leave()
    assert servers.versions == [1, 1]
    assert servers.shows() == {8.0}
