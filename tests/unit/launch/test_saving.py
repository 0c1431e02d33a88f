"""fleetrun was told to save and stop: when that is the end of the job, whoever ended how."""

from __future__ import annotations

import signal
import time
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleet.jobfiles.ending import SAVED
from fleet.launch.processes.child import Child
from fleet.launch.run.contract import Signalled
from fleet.launch.run.outcome import RoundOutcome
from fleet.launch.run.watch import Attempt


class Ended(Child):
    """A worker that has ended; no process is behind it."""

    def __init__(self, index: int, status: int) -> None:
        self.plan = cast("Any", SimpleNamespace(role="worker", name=f"worker {index}", index=index, num=2))
        self.status, self.life, self.pid, self.was_told_to_stop = status, 0, 1, False
        self.started_at = self.exited_at = time.time()

    was_refused, back_at = False, None

    def waits(self) -> list[Any]:
        return []


class NoCrew(SimpleNamespace):
    def start_again(self, old: Child) -> Child:
        raise AssertionError(f"{old.name} was started again")


def attempt_of(*workers: Child, max_lives: int | None, changers: Any = ()) -> Attempt:
    events: SimpleQueue[Any] = SimpleQueue()
    nothing = lambda *_, **__: None  # noqa: E731
    crew = NoCrew(children=list(workers), workers=list(workers), running=[], reap_orphans=nothing)
    crew.release = crew.sweep_after = nothing
    layout = SimpleNamespace(host="here", num_nodes=1)
    plan = SimpleNamespace(max_lives=max_lives, layout=layout, followed=workers[0].plan)
    team = SimpleNamespace(done=nothing, failed=nothing)
    attempt = Attempt(cast("Any", plan), cast("Any", crew), cast("Any", team), events, changers=changers)
    for event in (Signalled(signal.SIGUSR1), *workers):
        events.put(event)
    return attempt


def watched(*workers: Child, max_lives: int | None) -> RoundOutcome:
    return attempt_of(*workers, max_lives=max_lives)._watch()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("max_lives", [None, 3])
def test_a_worker_that_had_finished_is_not_waited_for(max_lives: int | None) -> None:
    assert watched(Ended(0, 0), Ended(1, SAVED), max_lives=max_lives).code == SAVED
    assert watched(Ended(0, SAVED), Ended(1, 0), max_lives=max_lives).code == SAVED


@pytest.mark.timeout(20)
def test_a_worker_that_dies_then_is_not_started_again() -> None:
    assert watched(Ended(0, SAVED), Ended(1, -signal.SIGKILL), max_lives=3).code == SAVED
    assert watched(Ended(0, -signal.SIGKILL), max_lives=3).code == SAVED


@pytest.mark.timeout(20)
def test_nobody_else_is_started_then() -> None:
    """By `fleetrun scale`: the new workers would not know, and train on."""
    looks: list[int] = []
    changer = SimpleNamespace(look=lambda *_: looks.append(1), takes=lambda *_: False)
    attempt = attempt_of(Ended(0, SAVED), max_lives=3, changers=[changer])
    signalled = attempt._next_event()
    assert isinstance(signalled, Signalled)
    assert attempt._saving.asks(signalled.number)
    attempt._next_event()
    assert looks == [1], "before the signal came"
