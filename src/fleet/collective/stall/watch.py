"""The watch of one worker: sees that a collective stalls, lets all workers say where they are, reports, ends the job.

Nothing here takes part in a collective or needs the main thread, which may be stuck in C++. The watches talk through
the store: whoever has waited too long makes a call (`call/0`, `call/1`, ...), everybody answers with its state, and
the caller makes one report of the answers. A call is a notice, after which the job goes on, or an alarm, after which
everybody writes the report and ends.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from typing import Literal, NoReturn

import torch.distributed as dist

from fleet import env
from fleet.collective.stall import flight
from fleet.collective.stall.ended import explain_lost_peers
from fleet.collective.stall.leaving import exit_within, flush
from fleet.collective.stall.mailbox import RETRY_S, Mailbox
from fleet.collective.stall.progress import Progress
from fleet.collective.stall.report import EXIT_CODE, SILENCE, Findings, StallOutcome, awaited, notice
from fleet.collective.stall.state import Stall, State, look_around, stall_from_json, state_from_json, to_json
from fleet.errors import CommunicationError
from fleet.observe.ending import has_failed, note_now, watch_exit
from fleet.observe.wait_notes import forget_wait, note_wait
from fleet.observe.waiting import notice_s
from fleet.roles.base import Identity

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 600.0
# While a job starts, machines are busy and every worker asks the store's host for something.
_START_S = 30.0
# Time for the others to see that all have reported, before the store's host goes.
_FAREWELL_S = 0.3
# In the place of a number of batches: the worker has not ended by itself.
_FAILED = "failed"
Kind = Literal["notice", "alarm"]


def timeout_s() -> float:
    """How long a collective may take."""
    return env.FLEET_STALL_TIMEOUT_S.get() or DEFAULT_TIMEOUT_S


class StallWatch(threading.Thread):
    """One per process, from `start()` to `stop()`, or until the process group it was started for is gone."""

    def __init__(self, store: dist.Store, identity: Identity, timeout_s: float) -> None:
        super().__init__(name="fleet-stall-watch", daemon=True)
        self._mailbox = Mailbox(store)
        self._worker = identity.index
        self._everybody = range(identity.num_workers)
        is_hosted = identity.rendezvous is not None and identity.rendezvous.is_hosted
        host = "the launcher" if is_hosted else "worker 0"
        self._is_host_worker = not is_hosted
        """Whether the store goes when worker 0 does."""
        self._left_by_host: int | None = None
        self._host_is_silent = f"{host}, where all meet, does not answer, so nobody can be asked: {SILENCE}"
        self._timeout_s = timeout_s
        self._notice_s = notice_s()
        self._interval_s = min(5.0, max(0.2, min(timeout_s / 30, self._notice_s / 4)))
        self._answer_s = 2 * self._interval_s + 2.0
        self.group = dist.group.WORLD
        self._progress = Progress(flight.statuses(), self._interval_s)
        self._noticed: Stall | None = None
        self._next_call = 0
        self._stopping = threading.Event()
        self.num_batches = 0
        """That this worker has begun to train on."""
        address = f"pid {os.getpid()} on {socket.gethostname()}"
        self._mailbox.put(f"address/{self._worker}", address, limit_s=_START_S)
        atexit.register(self.stop)
        watch_exit()
        self._explain_no_more = explain_lost_peers(self._worker, lambda: self.num_batches, self._left)

    def _left(self) -> dict[int, int]:
        """The workers that have left on purpose, with how many batches they had trained on."""
        others = [one for one in self._everybody if one != self._worker]
        try:
            told = self._by_worker("left", others)
        except CommunicationError:  # the store has gone with its host, which has waited until it was heard
            return {} if self._left_by_host is None else {0: self._left_by_host}
        return {worker: int(count) for worker, count in told.items() if count != _FAILED}

    @staticmethod
    def running() -> StallWatch | None:
        """The watch of this process, if there is one."""
        return next((thread for thread in threading.enumerate() if isinstance(thread, StallWatch)), None)

    def stop(self) -> None:
        """End the watch, and let the others know that this worker left on purpose."""
        atexit.unregister(self.stop)
        self._explain_no_more()
        self._stopping.set()
        if threading.current_thread() is not self:
            self.join(timeout=3 * self._answer_s)

    def run(self) -> None:
        try:
            self._watch()
            with contextlib.suppress(CommunicationError):
                self._take_leave()
        except Exception as error:  # of whatever kind: the job can do without a watch, but should know
            log.warning("a collective that hangs will not be reported: %r", error)
        finally:
            forget_wait(self)
            self._mailbox.close()

    def _take_leave(self) -> None:
        """Tell the others how many batches it were; the host of the store waits a moment until they have heard."""
        told = _FAILED if has_failed() else str(self.num_batches)
        self._mailbox.put_last(f"heard/{self._worker}", told)
        self._mailbox.put_last(f"left/{self._worker}", told)
        if self._worker == 0 and self._is_host_worker and told != _FAILED:
            self._mailbox.wait_last([f"heard/{one}" for one in self._everybody], self._interval_s + 1.0)

    def _hear_of_the_host(self) -> None:
        """Learn that worker 0 has ended while it still can tell."""
        if self._worker == 0 or not self._is_host_worker or self._left_by_host is not None:
            return
        with contextlib.suppress(CommunicationError):
            told = self._mailbox.get("left/0")
            if told is not None and told != _FAILED:
                self._left_by_host = int(told)
                self._mailbox.put(f"heard/{self._worker}", told)

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._stopping.wait(self._interval_s) and dist.is_initialized() and dist.group.WORLD is self.group:
            now = time.monotonic()
            self._progress.look(flight.statuses(), now - last)
            last = now
            self._answer_calls()
            self._hear_of_the_host()
            self._look_for_a_stall()

    def _look_for_a_stall(self) -> None:
        shortest_s = min(self._notice_s, self._timeout_s)
        long = {key: waited_s for key, waited_s in self._progress.waits().items() if waited_s >= shortest_s}
        if not long:
            forget_wait(self)
            return
        found = flight.operations()
        for key, waited_s in long.items():
            stall = self._stall(key, flight.first_pending(found, key), waited_s)
            if stall is None:
                self._progress.forget(key)
            elif waited_s >= self._timeout_s:
                self._call("alarm", stall)
            elif not self._is_noticed(stall):
                self._call("notice", stall)

    def _stall(self, key: flight.GroupKey, operation: flight.Operation | None, waited_s: float) -> Stall | None:
        """What waits in a group; None if nothing does, or the group is gone."""
        if operation is None:
            if not flight.is_forgotten(key):
                return None
            everybody = tuple(self._everybody)
            return Stall("", "", "a group", everybody, 0, "a collective", self._worker, waited_s)
        members = flight.members(operation.group)
        if not members:
            return None
        return Stall(
            backend=operation.backend,
            group=operation.group,
            group_title=flight.group_title(operation.group),
            members=tuple(members),
            number=operation.number,
            title=operation.title,
            worker=self._worker,
            waited_s=waited_s,
        )

    def _is_noticed(self, stall: Stall) -> bool:
        """Whether this stall was told, by whomever, and has not grown to twice what it was then."""
        told = self._noticed
        return told is not None and told.is_same(stall) and stall.waited_s < 2 * told.waited_s

    def _call(self, kind: Kind, stall: Stall) -> None:
        """Call everybody; if somebody else has just called, that call is answered first."""
        call = json.dumps([kind, to_json(stall)])
        try:
            while self._mailbox.put_first(f"call/{self._next_call}", call) != call:
                self._answer_calls()
                if kind == "notice" and self._is_noticed(stall):
                    return
        except CommunicationError:
            if kind == "alarm":
                self._end(self._alone(stall, self._host_is_silent))
            return
        self._answer(kind, stall)

    def _answer_calls(self) -> None:
        with contextlib.suppress(CommunicationError):
            while (call := self._mailbox.get(f"call/{self._next_call}")) is not None:
                kind, stall = json.loads(call)
                self._answer(kind, stall_from_json(stall))

    def _answer(self, kind: Kind, stall: Stall) -> None:
        """Say where this worker is. The caller collects what all say; in an alarm the others wait for its report."""
        number = self._next_call
        self._next_call += 1
        self._noticed = stall
        own = self._state(stall)
        try:
            self._mailbox.put(f"state/{number}/{self._worker}", to_json(own))
            if stall.worker == self._worker:
                findings = self._collect(number, stall, own)
                if kind == "notice":
                    log.warning("%s", notice(findings, self._timeout_s))
                    missing = awaited(findings)
                    note_wait(self, missing.what, missing.workers, stall.waited_s)
                    return
                outcome = StallOutcome.of(findings, self._timeout_s)
                self._mailbox.put(f"outcome/{number}", outcome.to_json())
            elif kind == "alarm":
                outcome = self._await_outcome(number, stall)
            else:
                return
        except CommunicationError:
            if kind == "notice":
                return
            outcome = self._alone(stall, self._host_is_silent)
        self._end(outcome)

    def _collect(self, number: int, stall: Stall, own: State) -> Findings:
        """The states of all, as far as they come in time."""
        others = [one for one in self._everybody if one != self._worker]
        keys = [f"state/{number}/{one}" for one in others]
        self._mailbox.wait(keys, self._answer_s)
        states = [state_from_json(text) for text in self._mailbox.get_all(keys).values()]
        return Findings(
            stall,
            states={self._worker: own, **{state.worker: state for state in states}},
            left=set(self._by_worker("left", others)),
            addresses=self._by_worker("address", others),
        )

    def _by_worker(self, what: str, workers: list[int]) -> dict[int, str]:
        found = self._mailbox.get_all([f"{what}/{one}" for one in workers])
        return {int(key.rpartition("/")[2]): value for key, value in found.items()}

    def _await_outcome(self, number: int, stall: Stall) -> StallOutcome:
        key = f"outcome/{number}"
        self._mailbox.wait([key], 2 * self._answer_s)
        text = self._mailbox.get(key)
        if text is None:
            return self._alone(stall, f"worker {stall.worker} should report and does not answer: {SILENCE}")
        return StallOutcome.from_json(text)

    def _alone(self, stall: Stall, trouble: str) -> StallOutcome:
        """What can be said when the others cannot be asked."""
        states = {self._worker: self._state(stall)}
        return StallOutcome.of(Findings(stall, states, left=set(), addresses={}, trouble=trouble), self._timeout_s)

    def _state(self, stall: Stall) -> State:
        found = flight.operations()
        waiting = next(filter(None, (flight.first_pending(found, key) for key in self._progress.waits())), None)
        keys = {one.key for one in found if (one.backend, one.group) == (stall.backend, stall.group)}
        quiet_s = max((self._progress.still_s(key) for key in keys), default=0.0)
        return look_around(self._worker, stall, found, waiting, quiet_s)

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
        time.sleep(_FAREWELL_S)
        os._exit(EXIT_CODE)
