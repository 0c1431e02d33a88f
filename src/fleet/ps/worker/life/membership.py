"""A worker of a job whose workers come and go: how it leaves before its data is at an end.

SIGTERM tells it to. It finishes the step that is under way, sends what it owes, hands back what it was given to read
and has not trained on, and ends with exit code 0. fleetrun sends the signal when there are to be fewer workers; an
engine that wants the machine may send it, too.
"""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from fleet.ps.proto import ps_pb2

if TYPE_CHECKING:
    from fleet.ps.worker.modes.base import PushPolicy

HandedBack = ps_pb2.LeaveRequest.HandedBack


class QueueReader(Protocol):
    """What reads pieces of a queue."""

    def hand_back(self) -> HandedBack | None:
        """How far it is in its epoch; it reads no more. None: it has nothing of a queue."""


class LeavingWorker(Protocol):
    """What is asked of the worker itself."""

    @property
    def has_caught_up(self) -> bool:
        """Whether it has come to where a former life was."""

    policy: PushPolicy
    """Sends what it has trained."""

    def go_on_at(self, step: int) -> None:
        """Go on at another step."""


class Membership:
    """Whether this worker is to leave, and how it does. Used from the thread that trains."""

    def __init__(self, has_untrained: Callable[[], bool] = lambda: False) -> None:
        """`has_untrained`: whether a reader has handed out a batch on which no optimizer has stepped yet."""
        self.is_told = False
        """Whether somebody has told it to leave."""
        self._has_untrained = has_untrained
        self._readers: list[weakref.ref[QueueReader]] = []
        self._worker: LeavingWorker | None = None
        self._leave: Callable[[Sequence[HandedBack]], None] = lambda _: None

    def watch(self) -> None:
        """Have SIGTERM tell it from now on; outside the main thread that is not possible, and it ends the process."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda _number, _frame: self._tell())

    def _tell(self) -> None:
        self.is_told = True

    def join(self, worker: LeavingWorker, leave: Callable[[Sequence[HandedBack]], None]) -> None:
        """This worker has joined its servers; `leave` leaves them, with what it hands back."""
        self._worker, self._leave = worker, leave

    def add(self, reader: QueueReader) -> None:
        """Something reads pieces of a queue."""
        self._readers.append(weakref.ref(reader))

    def between_steps(self) -> None:
        """Leave, and end this process, if this worker was told to and has trained on all that readers handed out."""
        if self.is_told and self._worker is not None and self._worker.has_caught_up and not self._has_untrained():
            readers = [reader for one in self._readers if (reader := one()) is not None]
            self._leave([back for reader in readers if (back := reader.hand_back()) is not None])
            raise SystemExit(0)

    def idle(self) -> None:
        """A reader has nothing left to hand out: return when servers have all that was sent, unless it is to leave."""
        if self._worker is not None:
            self._worker.policy.flush()
            self._worker.policy.step_aside()
        self.between_steps()

    def take_part(self) -> bool:
        """This worker has a batch: steps wait for it from now on; False: they did already, or wait for nobody."""
        worker = self._worker
        if worker is None or (step := worker.policy.take_part(loads=worker.has_caught_up)) is None:
            return False
        worker.go_on_at(step)
        return True

    @contextmanager
    def between_all_steps(self) -> Iterator[None]:
        """Inside, all servers are at one step, where steps wait for workers: they wait for this one."""
        is_new = self.take_part()
        try:
            yield
        finally:
            if is_new and self._worker is not None:
                self._worker.policy.step_aside()
