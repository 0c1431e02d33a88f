"""The watch of one worker, of whatever kind of job: one calls, all say where they are, one reports, all end.

Nothing here needs the main thread, which may be stuck in C++. The watches talk through a board: whoever has waited too
long makes a call (`call/0`, `call/1`, ...), everybody answers with its state, and the caller makes one report of the
answers. A call is a notice, after which the job goes on, or an alarm, after which everybody writes the report and ends,
unless the caller calls it off: somebody turned out to be at work.
"""

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, Literal, NoReturn, Protocol, Self

from fleet.errors import CommunicationError
from fleet.jobfiles.ending import note_now
from fleet.observe.metrics import events
from fleet.observe.stall.words import EXIT_CODE, SILENCE, Findings, Stall, StallOutcome, State


class Board(Protocol):
    """Every call has a limit, and raises CommunicationError if the host is silent."""

    def close(self) -> None:
        """Nothing may be called afterwards."""

    def put(self, key: str, value: str, limit_s: float | None = None) -> None:
        """Set a value; what stood there is replaced."""

    def put_first(self, key: str, value: str) -> str:
        """Put a value unless somebody has; return the one that stands."""

    def get(self, key: str) -> str | None:
        """The value, or None while there is none."""

    def get_all(self, keys: Iterable[str]) -> dict[str, str]:
        """The values of the keys that have one."""

    def wait(self, keys: Sequence[str], limit_s: float) -> None:
        """Return when all keys have a value, or the time is up."""

    def count(self, key: str, more: int) -> int:
        """Add to a counter and return what it says now."""


RETRY_S = 0.05
# Time for the others to see that all have reported, before the board's host goes.
_FAREWELL_S = 0.3
Kind = Literal["notice", "alarm"]


class Watch(threading.Thread, ABC, Generic[Stall, State]):
    """One per process. What is watched, and what is said of it, is the business of those that inherit."""

    host_is_silent: str
    """Said where nobody can be asked, for the board's host does not answer."""

    def __init__(
        self, kinds: tuple[type[Stall], type[State]], board: Board, worker: int, num_workers: int, interval_s: float
    ) -> None:
        super().__init__(name="fleet-stall-watch", daemon=True)
        self._stalls, self._states = kinds
        self._mailbox = board
        self._worker = worker
        self._everybody = range(num_workers)
        self._interval_s = interval_s
        self._answer_s = 2 * interval_s + 2.0
        self._next_call = 0
        self._stopping = threading.Event()

    @abstractmethod
    def _state(self, stall: Stall) -> State:
        """Where this worker is."""

    @abstractmethod
    def _heard(self, stall: Stall) -> None:
        """Somebody has called because of this."""

    @abstractmethod
    def _needs_call(self, kind: Kind, stall: Stall) -> bool:
        """Whether everybody is to be called, though somebody may just have done so."""

    @abstractmethod
    def _tell(self, found: Findings[Stall, State]) -> None:
        """Say what a call found; the job goes on."""

    @abstractmethod
    def _outcome(self, found: Findings[Stall, State]) -> StallOutcome | None:
        """How the job ends; None: it does not, for somebody is at work."""

    @classmethod
    def running(cls) -> Self | None:
        """The watch of this process, if there is one."""
        return next((thread for thread in threading.enumerate() if isinstance(thread, cls)), None)

    def stop(self) -> None:
        """End the watch, and let the others know that this worker left on purpose."""
        atexit.unregister(self.stop)
        self._stopping.set()
        if threading.current_thread() is not self:
            self.join(timeout=3 * self._answer_s)

    def _call(self, kind: Kind, stall: Stall) -> None:
        """Call everybody; if somebody else has just called, that call is answered first."""
        call = json.dumps([kind, stall.to_json()])
        try:
            while self._mailbox.put_first(f"call/{self._next_call}", call) != call:
                self._answer_calls()
                if not self._needs_call(kind, stall):
                    return
        except CommunicationError:
            if kind == "alarm":
                self._end_if(self._alone(stall, self.host_is_silent))
            return
        self._answer(kind, stall)

    def _answer_calls(self) -> None:
        with contextlib.suppress(CommunicationError):
            while (call := self._mailbox.get(f"call/{self._next_call}")) is not None:
                kind, stall = json.loads(call)
                self._answer(kind, self._stalls.from_json(stall))

    def _answer(self, kind: Kind, stall: Stall) -> None:
        """Say where this worker is. The caller collects what all say; in an alarm the others wait for its report."""
        number = self._next_call
        self._next_call += 1
        self._heard(stall)
        own = self._state(stall)
        try:
            self._mailbox.put(f"state/{number}/{self._worker}", own.to_json())
            if stall.worker == self._worker:
                found = self._collect(number, stall, own)
                if kind == "notice":
                    self._tell(found)
                    return
                outcome = self._outcome(found)
                self._mailbox.put(f"outcome/{number}", "" if outcome is None else outcome.to_json())
            elif kind == "alarm":
                outcome = self._await_outcome(number, stall)
            else:
                return
        except CommunicationError:
            if kind == "notice":
                return
            outcome = self._alone(stall, self.host_is_silent)
        self._end_if(outcome)

    def _collect(self, number: int, stall: Stall, own: State) -> Findings[Stall, State]:
        """The states of all, as far as they come in time, who has left, and where the others run."""
        others = [one for one in self._everybody if one != self._worker]
        keys = [f"state/{number}/{one}" for one in others]
        left = set(self._by_worker("left", others))
        self._mailbox.wait([key for key, one in zip(keys, others, strict=True) if one not in left], self._answer_s)
        states = [self._states.from_json(text) for text in self._mailbox.get_all(keys).values()]
        found = {self._worker: own, **{state.worker: state for state in states}}
        left = set(self._by_worker("left", others))
        return Findings(stall, found, left, self._by_worker("address", others))

    def _by_worker(self, what: str, workers: Sequence[int]) -> dict[int, str]:
        found = self._mailbox.get_all([f"{what}/{one}" for one in workers])
        return {int(key.rpartition("/")[2]): value for key, value in found.items() if value}

    def _await_outcome(self, number: int, stall: Stall) -> StallOutcome | None:
        key = f"outcome/{number}"
        self._mailbox.wait([key], 2 * self._answer_s)
        text = self._mailbox.get(key)
        if text is None:
            return self._alone(stall, f"worker {stall.worker} should report and does not answer: {SILENCE}")
        return StallOutcome.from_json(text) if text else None

    def _alone(self, stall: Stall, trouble: str) -> StallOutcome | None:
        """What can be said when the others cannot be asked."""
        return self._outcome(Findings(stall, {self._worker: self._state(stall)}, trouble=trouble))

    def _end_if(self, outcome: StallOutcome | None) -> None:
        if outcome is not None:
            self._end(outcome)

    def _end(self, outcome: StallOutcome) -> NoReturn:
        """Report and end this process; nobody ends before all who answered have reported, for the first end ends all.

        Those who did not come note their end first: of several workers that fail, the first is named as the cause.
        """
        exit_within(self._answer_s + 5.0)
        sys.excepthook = lambda *_: None  # the report is the cause; that a peer has ended by now is a consequence
        flush()
        with contextlib.suppress(OSError):  # no room on the disk, or nobody who reads
            os.write(2, f"{outcome.text}\n".encode())
        if self._worker in outcome.behind:
            note_now()
        with contextlib.suppress(CommunicationError):
            self._mailbox.count("reported", 1)
            deadline = time.monotonic() + self._answer_s
            while self._mailbox.count("reported", 0) < outcome.num_answers and time.monotonic() < deadline:
                time.sleep(RETRY_S)
        note_now()
        events.note("stall", outcome.summary)
        time.sleep(_FAREWELL_S)
        os._exit(EXIT_CODE)


FLUSH_LIMIT_S = 1.0


def exit_within(limit_s: float) -> None:
    """End this process by then, whatever becomes of what is still to be written; nothing where no thread can start."""
    timer = threading.Timer(limit_s, os._exit, (EXIT_CODE,))
    timer.daemon = True
    with contextlib.suppress(RuntimeError):
        timer.start()


def flush() -> None:
    """Write out what Python holds back; the main thread may be stuck with a lock on it, so this does not wait long."""

    def write() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    thread = threading.Thread(target=write, daemon=True)
    with contextlib.suppress(RuntimeError):
        thread.start()
        thread.join(FLUSH_LIMIT_S)
