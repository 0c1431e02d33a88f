"""What a server says that a step lacks, and to whom it says that no more will come."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from fleet.ps.held.holdings import Holdings
from fleet.ps.held.requests import PushedUpdate
from fleet.ps.steps.missing_workers import awaited_by_all, forsaken, too_late
from fleet.ps.steps.rounds import Rounds


@dataclass
class Server:
    """What of a server decides about waits."""

    mode: str = "sync"
    is_started: bool = True
    rounds: Rounds = field(default_factory=lambda: Rounds(3, version=7))

    @property
    def holdings(self) -> Holdings:
        return cast(Holdings, SimpleNamespace(is_started=self.is_started, job=SimpleNamespace(mode=self.mode)))

    def push(self, worker: int) -> None:
        self.rounds.add(PushedUpdate(worker, 7))

    def asked(self) -> tuple[str, tuple[int, ...]]:
        found = awaited_by_all(self.holdings, self.rounds)
        return found.what, found.workers


@pytest.fixture
def server() -> Server:
    return Server()


def test_the_gradients_that_have_not_come(server: Server) -> None:
    server.push(1)
    assert server.asked() == ("the gradients of workers 0 and 2, step 7", (0, 2))
    server.push(0)
    assert server.asked() == ("the gradients of worker 2, step 7", (2,))
    assert too_late(server.holdings, server.rounds, 1500).startswith("waited 1.5 s for step 7: no gradients from")


def test_the_first_values_come_before_all_else(server: Server) -> None:
    server.is_started = False
    assert server.asked() == ("worker 0 to send the first values of the dense parameters", (0,))
    server.rounds.leave(0, is_unfinished=True)
    assert forsaken(server.holdings, server.rounds) == (
        "worker 0 ended without fleet.stop_worker(); call it at the end of the script"
    )


def test_nobody_waits_for_others_where_steps_are_not_shared() -> None:
    assert Server(mode="async").asked() == ("", ())


def test_one_that_has_gone_is_missed_when_its_next_step_is(server: Server) -> None:
    server.push(1)
    server.rounds.leave(1, is_unfinished=True)
    assert forsaken(server.holdings, server.rounds) is None  # what it has pushed counts
    server.rounds.advance()
    assert forsaken(server.holdings, server.rounds) is not None
    server.rounds.join(1)
    assert forsaken(server.holdings, server.rounds) is None


def test_nobody_is_left_when_all_have_left_or_gone(server: Server) -> None:
    server.rounds.leave(0)
    server.rounds.leave(1, is_unfinished=True)
    assert not server.rounds.is_deserted
    server.rounds.leave(2)
    assert server.rounds.is_deserted
