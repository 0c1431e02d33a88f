"""The workers of a collective job come to a call, and say so, before any of them exchanges something in it.

Collectives have no names: one that a worker makes alone meets whatever collective the others make next, and torch
aborts over its size, or everybody waits. So each worker says first, in the job's store, to which call it has come.

That costs nothing while calls follow each other quickly. A member says where it is when it comes late to a call, and
when it has waited for long. So whoever has waited for long, and a moment more, finds in the store everybody who has
come; who is not there has not.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import torch.distributed as dist

from fleet.collective.stall.mailbox import Mailbox
from fleet.collective.stall.watch import StallWatch, timeout_s
from fleet.errors import CommunicationError, DeadlineError, UsageError
from fleet.observe.waits.waiting import Awaited, LongWait, members_awaited, notice_s, workers_text

# Calls that follow each other within this part of the time after which a wait is told are quick.
_QUICK = 0.2


# How often one who waits looks for a reason to give up.
_LOOK_S = 0.5
# How long it waits between two questions whether all are there.
_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.02


class Arrival:
    """The calls of one worker. Every worker makes the same ones, in the same order."""

    def __init__(self, store: dist.Store, worker: int, num_workers: int) -> None:
        self._store = dist.PrefixStore("arrival", store)
        self._worker = worker
        self._num_workers = num_workers
        self._number = 0

    def come(self, call: str) -> None:
        """Return when every worker has come to `call`; an error that names who has gone on, or left, without it.

        After a while nobody is known to have done so: then the call itself waits, and its wait is watched.
        """
        watch = StallWatch.running()
        keys = [f"{self._number}/{one}" for one in range(self._num_workers)]
        self._store.set(keys[self._worker], call)
        since = time.monotonic()
        with LongWait(f"worker {self._worker}") as wait:
            while not (are_there := self._are_there(keys, watch)):
                missing = self._missing(keys)
                if watch is not None:
                    self._refuse(watch, call, missing, since)
                if missing and wait.is_due:
                    wait.tell(Awaited(f"{workers_text(missing)} to come to {call}", tuple(missing)))
                if wait.waited_s > min(3 * notice_s(), timeout_s() / 3):
                    break
        if are_there:
            refuse_differing([text.decode() for text in self._said(keys)])
        if self._number > 1:  # those who are here have all left the call before the last one
            self._store.delete_key(f"{self._number - 2}/{self._worker}")
        self._number += 1

    def _are_there(self, keys: Sequence[str], watch: StallWatch | None) -> bool:
        """Whether all are there, or come soon; asked again and again, for a wait that the store ends is printed."""
        pause_s, until = _PAUSE_S, time.monotonic() + _LOOK_S
        try:
            while not self._store.check(list(keys)):
                if time.monotonic() > until:
                    return False
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        except RuntimeError:  # the store has gone, and worker 0 with it
            if watch is None or 0 not in watch.left():
                raise
            return False
        return True

    def _said(self, keys: Sequence[str]) -> list[bytes]:
        if self._store.has_extended_api():  # type: ignore[attr-defined]
            return self._store.multi_get(list(keys))
        return [self._store.get(key) for key in keys]

    def _missing(self, keys: Sequence[str]) -> list[int]:
        try:
            return [one for one, key in enumerate(keys) if not self._store.check([key])]
        except RuntimeError:  # only its host can have ended while the others live
            return [0]

    def _refuse(self, watch: StallWatch, call: str, missing: Sequence[int], since: float) -> None:
        elsewhere = {*watch.left(), watch.waiting_for_this(since)}
        if gone := [one for one in missing if one in elsewhere]:
            raise DeadlineError(
                f"{workers_text(gone)} went on, or left, without {call}; every worker calls it, at the same step"
            )


_arrivals: WeakKeyDictionary[dist.ProcessGroup, Arrival] = WeakKeyDictionary()


def arrival_of_workers() -> Arrival | None:
    """That of the default group, one for all who use it; None where its store cannot have a second connection."""
    group = dist.group.WORLD
    clone = getattr(dist.distributed_c10d._get_default_store(), "clone", None)
    if group is None or clone is None:
        return None
    if group not in _arrivals:
        _arrivals[group] = Arrival(clone(), group.rank(), group.size())
    return _arrivals[group]


def refuse_differing(calls: Sequence[str]) -> None:
    """UsageError where the workers, who have all come, have come to different calls."""
    for worker, call in enumerate(calls):
        if call != calls[0]:
            raise UsageError(
                f"worker 0 has come to {calls[0]} and worker {worker} to {call}; what all workers do together they "
                "call in the same order"
            )


class Attendance:
    """The calls of one member of a world. Every member makes the same ones, in the same order."""

    def __init__(self, store: dist.Store, name: str, own: str, everybody: Sequence[str]) -> None:
        self._store = dist.PrefixStore(f"{name}/attendance", store)
        self._own = own
        self._everybody = everybody
        self._mailbox: Mailbox | None = None
        self._number = 0
        self._ended = time.monotonic()

    def close(self) -> None:
        """Nothing may be called afterwards."""
        if self._mailbox is not None:
            self._mailbox.close()

    def wait(self, is_done: Callable[[float], bool], call: str) -> None:
        """Return when `is_done`, which waits for so many seconds, is true; a long wait is told."""
        self._number += 1
        quick_s = _QUICK * notice_s()
        if time.monotonic() - self._ended > quick_s:
            self._say_here()
        with LongWait(self._own) as wait:
            if not is_done(wait.silent_s):
                self._say_here()
                limit_s = 1.5 * quick_s  # for those who came when we did
                while not is_done(limit_s):
                    wait.tell(self._awaited(call))
                    limit_s = wait.silent_s
        self._ended = time.monotonic()

    def _say_here(self) -> None:
        with contextlib.suppress(CommunicationError, OSError, RuntimeError):
            if self._mailbox is None:
                self._mailbox = Mailbox(self._store)
            self._mailbox.put(self._own, str(self._number))

    def _awaited(self, call: str) -> Awaited:
        try:
            if self._mailbox is None:
                raise CommunicationError("the store's host cannot be reached")
            at = self._mailbox.get_all(self._everybody)
        except CommunicationError:
            return Awaited(f"the others to come to {call}")
        missing = [one for one in self._everybody if int(at.get(one, "0")) < self._number]
        return members_awaited(missing, call) if missing else Awaited(f"{call}, to which everybody has come")
