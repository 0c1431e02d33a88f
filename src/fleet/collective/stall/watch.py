"""The watch of one worker of a collective job: sees that a collective stalls; `fleet.observe.stall` does the rest.

Nothing here takes part in a collective or needs the main thread. The watches talk through the job's store.
"""

import atexit
import contextlib
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import torch.distributed as dist

from fleet import env
from fleet.collective.stall import flight
from fleet.collective.stall.flight import Progress
from fleet.collective.stall.mailbox import Mailbox
from fleet.collective.stall.report import Stall, StallFindings, State, awaited, look_around, notice, outcome_of
from fleet.errors import CommunicationError
from fleet.jobfiles.ending import has_failed, watch_exit
from fleet.jobfiles.wait_notes import forget_wait, note_wait
from fleet.observe.stall.watch import Kind, Watch
from fleet.observe.stall.words import SILENCE, StallOutcome
from fleet.observe.waits.waiting import DEFAULT_TIMEOUT_S, notice_s
from fleet.roles.base import Identity

log = logging.getLogger(__name__)
# While a job starts, machines are busy and every worker asks the store's host for something.
_START_S = 30.0

# In the place of a number of batches: the worker has not ended by itself.
_FAILED = "failed"


_LOST = re.compile(r"closed by peer|reset by peer|broken pipe|lost a member|remote process exited", re.IGNORECASE)
"""What backends say when a peer has gone, by whatever way."""


def explain_lost_peers(
    worker: int, count: Callable[[], int], left: Callable[[], Mapping[int, int]]
) -> Callable[[], None]:
    """From now on an uncaught error about a lost peer names the worker that had ended by itself, if one had.

    `count`: the batches that this worker has begun; `left`: how many each worker had when it left, of those that have.
    What comes back undoes it.
    """
    show = sys.excepthook

    def explained(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        line = explanation(worker, count(), left()) if _is_lost_peer(error) else None
        if line is not None:
            kind, error = CommunicationError, CommunicationError(line)
        show(kind, error, trace)

    def undo() -> None:
        if sys.excepthook is explained:
            sys.excepthook = show

    sys.excepthook = explained
    return undo


def explanation(worker: int, num_batches: int, left: Mapping[int, int]) -> str | None:
    """Who ended with how many batches, and what to do; None if nobody has left.

    >>> explanation(0, 8, {1: 7}).partition(":")[0]
    'worker 1 ended after 7 batches while worker 0 is in batch 8'
    """
    if not left:
        return None
    first = min(left, key=lambda one: (left[one], one))
    others = f" (and {len(left) - 1} more workers)" if len(left) > 1 else ""
    plural = "" if left[first] == 1 else "es"
    ended = f"worker {first}{others} ended after {left[first]} batch{plural} while worker {worker}"
    if left[first] < num_batches:
        return (
            f"{ended} is in batch {num_batches}: give every worker the same number of batches, or let "
            "fleet.data.shard(..., uneven='pad', 'drop' or 'join') see to it"
        )
    together = "what all workers do together, such as a save, all of them must call"
    return f"{ended} still waits for it after {num_batches}: {together}"


def _is_lost_peer(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and _LOST.search(str(error)) is not None


def timeout_s() -> float:
    """How long a collective may take."""
    return env.FLEET_STALL_TIMEOUT_S.get() or DEFAULT_TIMEOUT_S


class StallWatch(Watch[Stall, State]):
    """One per process, from `start()` to `stop()`, or until the process group it was started for is gone."""

    _mailbox: Mailbox

    def __init__(self, store: dist.Store, identity: Identity, timeout_s: float) -> None:
        first_s = notice_s()
        interval_s = min(5.0, max(0.2, min(timeout_s / 30, first_s / 4)))
        super().__init__((Stall, State), Mailbox(store), identity.index, identity.num_workers, interval_s)
        is_hosted = identity.rendezvous is not None and identity.rendezvous.is_hosted
        host = "the launcher" if is_hosted else "worker 0"
        self._is_host_worker = not is_hosted
        """Whether the store goes when worker 0 does."""
        self._left_by_host: int | None = None
        self.host_is_silent = f"{host}, where all meet, does not answer, so nobody can be asked: {SILENCE}"
        self._timeout_s = timeout_s
        self._notice_s = first_s
        self.group = dist.group.WORLD
        self._progress = Progress(flight.statuses(), self._interval_s)
        self._noticed: Stall | None = None
        self._noticed_at = 0.0
        self.num_batches = 0
        """That this worker has begun to train on."""
        address = f"pid {os.getpid()} on {socket.gethostname()}"
        self._mailbox.put(f"address/{self._worker}", address, limit_s=_START_S)
        atexit.register(self.stop)
        watch_exit()
        self._explain_no_more = explain_lost_peers(self._worker, lambda: self.num_batches, self.left)

    def left(self) -> dict[int, int]:
        """The workers that have left on purpose, with how many batches they had trained on."""
        others = [one for one in self._everybody if one != self._worker]
        try:
            told = self._by_worker("left", others)
        except CommunicationError:  # the store has gone with its host, which has waited until it was heard
            return {} if self._left_by_host is None else {0: self._left_by_host}
        return {worker: int(count) for worker, count in told.items() if count != _FAILED}

    def waiting_for_this(self, since: float) -> int | None:
        """A worker that was found, after `since`, to wait in a collective to which this one has not come."""
        stall = self._noticed
        if (
            stall is None
            or stall.worker == self._worker
            or self._noticed_at < since
            or self._worker not in stall.members
        ):
            return None
        group = stall.backend, stall.group
        reached = [one.number for one in flight.operations() if (one.backend, one.group) == group]
        return stall.worker if max(reached, default=0) < stall.number else None

    def stop(self) -> None:
        """End the watch, and say no more why peers are lost."""
        self._explain_no_more()
        super().stop()

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
            elif self._needs_call("notice", stall):
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

    def _needs_call(self, kind: Kind, stall: Stall) -> bool:
        """Whether this stall is an alarm, was not told, by whomever, or has grown to twice what it was then."""
        told = self._noticed
        return kind == "alarm" or told is None or not told.is_same(stall) or stall.waited_s >= 2 * told.waited_s

    def _heard(self, stall: Stall) -> None:
        self._noticed, self._noticed_at = stall, time.monotonic()

    def _tell(self, found: StallFindings) -> None:
        log.warning("%s", notice(found, self._timeout_s))
        missing = awaited(found)
        note_wait(self, missing.what, missing.workers, found.stall.waited_s)

    def _outcome(self, found: StallFindings) -> StallOutcome:
        return outcome_of(found, self._timeout_s)

    def _state(self, stall: Stall) -> State:
        found = flight.operations()
        waiting = next(filter(None, (flight.first_pending(found, key) for key in self._progress.waits())), None)
        keys = {one.key for one in found if (one.backend, one.group) == (stall.backend, stall.group)}
        quiet_s = max((self._progress.still_s(key) for key in keys), default=0.0)
        return look_around(self._worker, stall, found, waiting, quiet_s)
