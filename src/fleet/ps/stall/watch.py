"""The watch of one worker of a job with servers: sees that it waits too long; `fleet.observe.stall` does the rest.

A worker knows itself what it waits for: its long waits are noted (`fleet.observe.waits.waiting`) with the workers that
are missing, as server 0 knows them, or with the server that owes an answer. The watches talk through notes on server 0.
"""

import atexit
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping

from fleet.errors import CommunicationError, FleetError
from fleet.jobfiles.ending import has_failed
from fleet.jobfiles.terms import own_term
from fleet.observe.metrics.steps import steps
from fleet.observe.stall.watch import Kind, Watch
from fleet.observe.stall.words import SILENCE, Findings, StallOutcome
from fleet.observe.waits.waiting import LongWait, present_waits
from fleet.observe.whereabouts import whereabouts
from fleet.ps.proto import ps_pb2
from fleet.ps.stall.remote_board import RemoteBoard, asked
from fleet.ps.stall.report import Limits, OverdueWait, WaitFindings, WorkerState, outcome_of
from fleet.ps.wire.transport import Transport

# Beyond this many workers each one looks less often, so that server 0 is asked at most 40 times a second, but often
# enough for a report to be there before a step gives up (STEP_GRACE_S).
NUM_OFTEN = 200
MOST_SELDOM_S = 15.0
# How long a server may take to show that it is there.
PROBE_S = 1.5
# How often in a row a server, or the board, must be silent: one lost answer is no reason to end a job.
NUM_MISSES = 3
MAX_AWAITED = 8
NEWEST = "newest"
"""The name of the note with the number of the last call."""

log = logging.getLogger(__name__)


def interval_s(timeout_s: float, num_workers: int) -> float:
    """How often a watch looks."""
    return min(MOST_SELDOM_S, min(5.0, max(0.2, timeout_s / 30)) * max(1.0, num_workers / NUM_OFTEN))


class RanTime:
    """How long this process has run since a moment, without the time in which it was stopped or its machine suspended.

    `look` is called every `interval_s`; a late call shows a gap.
    """

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._last = clock()
        self._gaps: list[tuple[float, float]] = []
        """When a gap ended, and how many seconds it took."""

    def look(self) -> None:
        """Note that the process runs; to be called every `interval_s`."""
        now = self._clock()
        lost_s = now - self._last - 2 * self._interval_s
        if lost_s > 0:
            self._gaps.append((now, lost_s))
        self._last = now

    def since(self, moment: float) -> float:
        """Seconds from a moment of the same clock until now."""
        now = self._clock()
        return max(0.0, now - moment - sum(lost_s for ended, lost_s in self._gaps if ended > moment))


class ServedWatch(Watch[OverdueWait, WorkerState]):
    """One per process, from `start()` to `stop()`. `reach` makes a transport to a server, by its endpoint."""

    def __init__(
        self,
        board: RemoteBoard,
        worker: int,
        num_workers: int,
        limits: Limits,
        reach: Callable[[str], Transport],
    ) -> None:
        super().__init__(
            (OverdueWait, WorkerState), board, worker, num_workers, interval_s(limits.timeout_s, num_workers)
        )
        self.host_is_silent = f"server 0, where all meet, does not answer, so nobody can be asked: {SILENCE}"
        self._answer_s += 2 * PROBE_S
        self._address = f"pid {os.getpid()} on {socket.gethostname()}"
        self._limits = limits
        self._reach = reach
        self._ran = RanTime(self._interval_s)
        self._began = self._quiet_since = time.monotonic()
        self._is_quiet = False
        """Whether a call was made a while ago, and nobody was to blame."""
        self._quiet_before = 0.0
        """When the call before that was made."""
        self._is_known = False
        """Whether this watch has come to a board before."""
        self._own_call = -1
        self._board_misses = self._server_misses = 0
        self._board_since = self._began
        """When the board last answered."""
        self.num_steps: Callable[[], int] | None = None
        """How many steps this worker has made; None before it has joined the servers."""

    def start(self) -> None:
        """Begin to watch; a script that ends without `stop_worker` ends the watch too."""
        atexit.register(self.stop)
        super().start()

    def run(self) -> None:
        try:
            self._watch()
            if not has_failed():
                with contextlib.suppress(CommunicationError):
                    self._mailbox.put(f"left/{self._worker}", "left")
        except Exception as error:  # of any kind: the job can do without a watch, but should know
            log.warning("a worker that waits too long will not be reported: %r", error)
        finally:
            self._mailbox.close()

    def _watch(self) -> None:
        while True:
            self._ran.look()
            try:
                self._look_at_the_board()
            except CommunicationError:
                self._board_misses += 1
            else:
                self._board_misses, self._board_since = 0, time.monotonic()
            self._look_for_a_stall()
            if self._stopping.wait(self._interval_s):
                return

    def _look_at_the_board(self) -> None:
        """Answer a call, if there is one; begin anew on a board of a new life of server 0.

        A watch may find a call on such a board already, and answers it. Calls before its very first look were not
        meant for it.
        """
        own = f"address/{self._worker}"
        found = self._mailbox.get_all([own, NEWEST])
        newest = int(found.get(NEWEST, "-1"))
        if not self._is_known or found.get(own) != self._address:
            is_answered = not self._is_known or newest == self._own_call
            self._next_call = newest + 1 if is_answered else max(0, newest)
            self._mailbox.put(f"left/{self._worker}", "")  # a former life may have
            self._mailbox.put(own, self._address)
            self._is_known = True
        if newest >= self._next_call:
            self._next_call = newest
            self._answer_calls()

    def _look_for_a_stall(self) -> None:
        long = [wait for wait in present_waits() if self._is_too_long(wait)]
        if not long:
            self._server_misses = 0
        for wait in long:
            waited_s, awaited = self._ran.since(wait.sign_at), wait.awaited
            if awaited.server:
                if self._answers(awaited.server):
                    self._server_misses = 0
                    wait.signed()
                    continue
                self._server_misses += 1
                if self._server_misses < NUM_MISSES:
                    continue
            stall = OverdueWait(self._worker, awaited.what, awaited.workers, awaited.server, waited_s)
            if self._needs_call("alarm", stall):
                self._call("alarm", stall)
            return

    def _answers(self, endpoint: str) -> bool:
        """Whether a server answers; then what it does for this worker has a time limit of its own."""
        transport, caller = self._reach(endpoint), ps_pb2.Caller(worker=self._worker, term=own_term())
        try:
            asked(transport, ps_pb2.BoardRequest.Header(caller=caller), PROBE_S)
        except FleetError as error:
            return isinstance(error, CommunicationError) and error.is_answer
        else:
            return True
        finally:
            transport.close()

    def _needs_call(self, kind: Kind, stall: OverdueWait) -> bool:  # noqa: ARG002 - there are alarms only
        """Whether the last call was long enough ago, if it found nobody to blame."""
        return not self._is_quiet or time.monotonic() - self._quiet_since > max(1.0, self._limits.timeout_s / 4)

    def _heard(self, stall: OverdueWait) -> None:
        self._quiet_before = self._quiet_since if self._is_quiet else 0.0
        self._is_quiet, self._quiet_since = True, time.monotonic()
        if stall.worker == self._worker:
            self._own_call = self._next_call - 1
        with contextlib.suppress(CommunicationError):
            self._mailbox.put(NEWEST, str(self._next_call - 1))

    def _state(self, stall: OverdueWait) -> WorkerState:  # noqa: ARG002
        waits = present_waits()
        wait: LongWait | None = waits[0] if waits else None
        server = "" if wait is None else wait.awaited.server
        is_there = bool(server) and (self._answers(server) or self._answers(server))
        is_served = wait is not None and (wait.awaited.is_limited or is_there)
        stack, where = whereabouts()
        return WorkerState(
            worker=self._worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            num_steps=None if self.num_steps is None else self.num_steps(),
            idle_s=steps.idle_s,
            waits_for="" if wait is None else wait.awaited.what,
            waits_for_workers=() if wait is None else wait.awaited.workers[:MAX_AWAITED],
            waited_s=0.0 if wait is None else self._ran.since(wait.sign_at),
            server=server,
            is_served=is_served,
            age_s=self._ran.since(self._began),
            where=where,
            stack=stack,
        )

    def _tell(self, found: Findings[OverdueWait, WorkerState]) -> None:
        raise NotImplementedError("a long wait is told by whoever waits")

    def _outcome(self, found: Findings[OverdueWait, WorkerState]) -> StallOutcome | None:
        if not found.trouble and not any(self._is_too_long(wait) for wait in present_waits()):
            return None  # what was waited for has come meanwhile
        seen = set() if found.trouble else self._seen(found.stall, found.states)
        return outcome_of(WaitFindings(**vars(found), seen=seen), self._limits)

    def _alone(self, stall: OverdueWait, trouble: str) -> StallOutcome | None:
        """The outcome once server 0 is silent for good; None while it may be busy, or about to come back."""
        is_back_soon = time.monotonic() - self._board_since < self._limits.return_s
        if self._board_misses < NUM_MISSES or is_back_soon:
            return None
        return super()._alone(stall, trouble)

    def _is_too_long(self, wait: LongWait) -> bool:
        return self._ran.since(wait.sign_at) >= self._limits.timeout_s and not wait.awaited.is_limited

    def _seen(self, stall: OverdueWait, states: Mapping[int, WorkerState]) -> set[int]:
        """The silent workers that answered the call before this one: a durable job may be starting them again."""
        if time.monotonic() - self._quiet_before >= self._limits.return_s:
            return set()
        before = self._next_call - 2
        keys = {f"state/{before}/{one}": one for one in stall.workers if one not in states}
        return {keys[key] for key in self._mailbox.get_all(keys)}
