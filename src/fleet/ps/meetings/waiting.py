"""Workers that wait at a meeting: each in a thread, or as a call that native code keeps without one.

An arrival is counted once for all that wait for the same workers, and nobody is woken in vain: a barrier of n workers
costs n arrivals and n answers, and the answer is made once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

from fleet import _native

if TYPE_CHECKING:
    from fleet.ps.proto import ps_pb2

Elsewhere = Callable[[Set[int]], list[int]]
"""Which of the missing will not come, ascending; it raises where the caller may not wait any more."""


class SharedAnswer:
    """An answer that many get, encoded once."""

    def __init__(self, header: ps_pb2.MeetReply.Header) -> None:
        self.header = header
        self._bytes: bytes | None = None

    @property
    def as_bytes(self) -> bytes:
        """The header as it travels."""
        if self._bytes is None:
            self._bytes = self.header.SerializeToString()
        return self._bytes


class Visit:
    """One call to a meeting, which may wait. The meetings' lock guards it."""

    def __init__(self, header: ps_pb2.MeetRequest.Header, num_workers: int, elsewhere: Elsewhere) -> None:
        self.header = header
        self.worker = header.caller.worker
        self.num_workers = num_workers
        self.elsewhere = elsewhere
        self.number = 0
        """The number by which the meetings know it."""
        self.told: SharedAnswer | None = None
        """Its answer; None: it has none yet."""

    def tell(self, told: SharedAnswer) -> None:
        """End the wait with this answer."""
        self.told = told

    def look(self) -> None:
        """Look again: something has happened that may concern it."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return False


class ThreadVisit(Visit):
    """A call that waits in a thread, on a condition of its own."""

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
    """A call that native code keeps; `fleet.ps.server.plane_server` looks at it when something happens."""

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
        """The workers that they wait for."""
        self.is_between_steps = is_between_steps
        """Whether a worker that makes a step instead counts as one that will not come."""
        self._visits: dict[int, list[Visit]] = {}
        """By worker; more than one where the connection was lost and the call was sent again."""

    def __iter__(self) -> Iterator[Visit]:
        return (visit for visits in list(self._visits.values()) for visit in visits)

    def __bool__(self) -> bool:
        return bool(self._visits)

    def of(self, worker: int) -> Sequence[Visit]:
        """The visits of one worker."""
        return self._visits.get(worker, ())

    def add(self, visit: Visit) -> list[Visit]:
        """Have a visit wait; returns former ones of its worker that nobody waits for any more."""
        before = self._visits.get(visit.worker, [])
        self._visits[visit.worker] = [*(one for one in before if not one.is_gone), visit]
        return [one for one in before if one.is_gone]

    def remove(self, visit: Visit) -> None:
        """Stop waiting; idempotent."""
        left = [one for one in self._visits.pop(visit.worker, ()) if one is not visit]
        if left:
            self._visits[visit.worker] = left
