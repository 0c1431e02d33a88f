"""How a long wait is told: when, in which words, to fleetrun as well, and once for all who wait for the same."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleet.jobfiles import joining
from fleet.jobfiles.process_files import ProcessFiles
from fleet.jobfiles.wait_notes import WaitNote, read_waits
from fleet.launch.planning.plan import ProcessPlan
from fleet.launch.processes.child import Child
from fleet.launch.run import waits
from fleet.launch.run.waits import Waits
from fleet.observe.waits import waiting
from fleet.observe.waits.waiting import Awaited, LongWait, told_meanwhile, waiting_in

GRADIENTS = Awaited("the gradients of worker 1, step 120", (1,))


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.delenv("FLEET_WAIT_NOTICE_S", raising=False)
    monkeypatch.delenv("FLEET_NOTE_FILE", raising=False)
    monkeypatch.setattr(waiting, "time", made)
    monkeypatch.setattr(waits, "time", made)
    return made


def test_a_wait_is_told_after_ten_seconds_and_then_at_growing_intervals(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with LongWait("worker 0") as wait:
        assert (wait.silent_s, wait.is_due) == (10.0, False)
        for _ in range(100):
            clock.now += wait.silent_s
            assert wait.is_due
            wait.tell(GRADIENTS)
    told = [f"worker 0 waits for the gradients of worker 1, step 120; {s} s so far" for s in (10, 20, 40, 80, 160, 320)]
    assert caplog.messages == [*told, told[-1].replace("320", "640")]


def test_the_user_s_word_and_the_call_are_in_it(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "0.5")
    with LongWait("worker 0") as wait, waiting_in("fleet.load_model()"):
        assert wait.silent_s == 0.5
        clock.now += 0.5
        wait.tell(Awaited("worker 1 to come to barrier of the worker world", (1,)))
    assert caplog.messages == [
        "worker 0 waits for worker 1 to come to barrier of the worker world, in fleet.load_model(); 0 s so far"
    ]


def test_fleetrun_reads_what_a_process_waits_for_as_long_as_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ProcessFiles(tmp_path / "workerlog.0.note")
    monkeypatch.setenv("FLEET_NOTE_FILE", str(files.note))
    assert read_waits(files.waits) == []
    with LongWait("worker 0") as wait, LongWait("worker 0") as other:
        wait.tell(GRADIENTS)
        other.tell(Awaited("server 10.0.0.1:6170 to answer Push"))
        first, second = read_waits(files.waits)
    assert (first.what, first.workers) == (GRADIENTS.what, (1,))
    assert (second.what, second.workers) == ("server 10.0.0.1:6170 to answer Push", ())
    assert first.since <= first.noted_at <= time.time()
    assert read_waits(files.waits) == []
    files.waits.write_text('{"waits": [{"what": 3')
    assert read_waits(files.waits) == []


def test_a_block_that_cannot_be_woken_is_spoken_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "0.01")
    looked = threading.Event()

    def look() -> Awaited:
        looked.set()
        return GRADIENTS

    with caplog.at_level(logging.WARNING), told_meanwhile("worker 0", look):
        assert looked.wait(60)
    with told_meanwhile("worker 0", lambda: None):
        pass
    assert all(line.startswith("worker 0 waits for the gradients of worker 1, step 120;") for line in caplog.messages)


class Waiting:
    """A child as `Waits` sees it."""

    def __init__(self, index: int, *found: WaitNote, role: str = "worker") -> None:
        self.plan = SimpleNamespace(role=role, index=index, name=f"{role} {index}")
        self.status: int | None = None
        self.exited_at: float | None = None
        self.is_unstopped = True
        self.found = list(found)

    @property
    def is_running(self) -> bool:
        return self.status is None

    def waits(self) -> list[WaitNote]:
        return self.found


def waits_of(*children: Waiting, followed: int = 0) -> Waits:
    return Waits(cast(list[Child], children), cast(ProcessPlan, children[followed].plan))


def note(awaited: Awaited, clock: Clock, waited_s: float = 10.0) -> Any:
    return WaitNote(awaited.what, awaited.workers, clock.now - waited_s, clock.now)


def test_whoever_waits_for_the_same_shares_a_line(clock: Clock) -> None:
    wait = note(Awaited("the gradients of worker 0, step 3", (0,)), clock)
    told = waits_of(Waiting(0), Waiting(1, wait), Waiting(2, wait), Waiting(0, role="server"))
    assert told.look() == (["workers 1 and 2 wait for the gradients of worker 0, step 3; 10 s so far"], None)
    assert told.look() == ([], None)
    clock.now += 10
    assert told.look() == (["workers 1 and 2 wait for the gradients of worker 0, step 3; 20 s so far"], None)
    clock.now += 19
    assert told.look() == ([], None)


def test_what_the_followed_process_says_itself_is_not_said_again(clock: Clock) -> None:
    wait = note(Awaited("the gradients of worker 2, step 3", (2,)), clock)
    told = waits_of(Waiting(0, wait), Waiting(1, wait), Waiting(2))
    assert told.look() == ([], None)


def test_whoever_waits_for_a_worker_that_has_ended_waits_in_vain(clock: Clock) -> None:
    waiter, ended = Waiting(0, note(GRADIENTS, clock)), Waiting(1)
    told = waits_of(waiter, ended)
    ended.status, ended.exited_at = 0, clock.now + 1
    assert told.look()[1] is None  # what was noted before its end may have come since
    clock.now += 2
    waiter.found = [note(GRADIENTS, clock)]
    ended.is_unstopped = False
    assert told.look()[1] is None  # it has left in order: the note is old
    ended.is_unstopped = True
    found = told.look()[1]
    assert found is not None
    assert found.text == (
        "worker 1 ended without fleet.stop_worker(); call it at the end of the script; worker 0 waits for the "
        "gradients of worker 1, step 120"
    )


def test_a_worker_owes_its_servers_a_word_from_joining_to_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLEET_NOTE_FILE", raising=False)
    assert not joining.note_joined()
    joining.note_stopped()
    monkeypatch.setenv("FLEET_NOTE_FILE", str(tmp_path / "note"))
    assert joining.note_joined()
    assert joining.note_joined()
    assert [path.name for path in tmp_path.iterdir()] == ["note.unstopped"]
    joining.note_stopped()
    joining.note_stopped()
    assert not list(tmp_path.iterdir())
