"""Workers that wait at a meeting: each in a thread, or as a call that native code keeps without one.

Who comes is counted once for all that wait for the same workers, and nobody is woken in vain: a barrier of n workers
costs n arrivals and n answers, and the answer is made once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet import _native
    from fleet.ps.proto import ps_pb2

Elsewhere = Callable[[Set[int]], list[int]]
"""Which of the missing will not come, ascending; it raises where the caller may not wait any more."""


class SharedAnswer:
    """An answer that many get."""

    def __init__(self, header: ps_pb2.MeetReply.Header) -> None:
        self.header = header
        self._bytes: bytes | None = None

    @property
    def as_bytes(self) -> bytes:
        """As it travels."""
        if self._bytes is None:
            self._bytes = self.header.SerializeToString()
        return self._bytes


class Visit:
    """One who has called, and may wait. The meetings' lock guards it."""

    def __init__(self, header: ps_pb2.MeetRequest.Header, num_workers: int, elsewhere: Elsewhere) -> None:
        self.header = header
        self.worker = header.caller.worker
        self.num_workers = num_workers
        self.elsewhere = elsewhere
        self.number = 0
        """By which the meetings know it."""
        self.told: SharedAnswer | None = None
        """What it is told; None: nothing yet."""

    def tell(self, told: SharedAnswer) -> None:
        """The wait is over."""
        self.told = told

    def look(self) -> None:
        """Something has happened that may concern it."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return False


class ThreadVisit(Visit):
    """It waits in a thread, on a condition of its own."""

    def __init__(
        self, header: ps_pb2.MeetRequest.Header, num_workers: int, elsewhere: Elsewhere, lock: threading.RLock
    ) -> None:
        super().__init__(header, num_workers, elsewhere)
        self.changed = threading.Condition(lock)

    def tell(self, told: SharedAnswer) -> None:
        super().tell(told)
        self.changed.notify_all()

    def look(self) -> None:
        self.changed.notify_all()


class CallVisit(Visit):
    """It is a call that native code keeps, and has `fleet.ps.server.plane_server` look at when something happens."""

    def __init__(
        self,
        header: ps_pb2.MeetRequest.Header,
        num_workers: int,
        elsewhere: Elsewhere,
        call: _native.PlaneCall,
    ) -> None:
        super().__init__(header, num_workers, elsewhere)
        self._call = call

    def tell(self, told: SharedAnswer) -> None:
        super().tell(told)
        self._call.reply(told.as_bytes, ())

    @property
    def is_gone(self) -> bool:
        return self._call.is_gone


class Party:
    """Visits of one meeting that wait for the same workers."""

    def __init__(self, missing: set[int], *, is_between_steps: bool) -> None:
        self.missing = missing
        """Whom they wait for."""
        self.is_between_steps = is_between_steps
        """Whether who makes a step instead will not come."""
        self._visits: dict[int, list[Visit]] = {}
        """By worker; more than one where a connection was lost, and the call came again."""

    def __iter__(self) -> Iterator[Visit]:
        return (visit for visits in list(self._visits.values()) for visit in visits)

    def __bool__(self) -> bool:
        return bool(self._visits)

    def of(self, worker: int) -> Sequence[Visit]:
        """The visits of one worker."""
        return self._visits.get(worker, ())

    def add(self, visit: Visit) -> list[Visit]:
        """Have one wait; those of its former calls that nobody waits for any more."""
        before = self._visits.get(visit.worker, [])
        self._visits[visit.worker] = [*(one for one in before if not one.is_gone), visit]
        return [one for one in before if one.is_gone]

    def remove(self, visit: Visit) -> None:
        """It waits no more; again it changes nothing."""
        left = [one for one in self._visits.pop(visit.worker, ()) if one is not visit]
        if left:
            self._visits[visit.worker] = left
