"""The door of a server: while a cut is made, pushes that are not in it wait there."""

import threading
from collections.abc import Callable, Sequence

from fleet.ps.wire import callers
from fleet.ps.wire.taken_pushes import TakenPushes

WAIT_S = 5.0
"""How long a call waits there, before whoever made it is asked to come again."""


class PushDoor:
    """Usually open. It is shut while the gate is closed, and asked inside the gate."""

    def __init__(self) -> None:
        self.is_shut = False
        self._changed = threading.Condition()
        self._allowed: Sequence[TakenPushes] = ()
        self.entered: list[Callable[[], None]] = []
        """Called when a push was taken that may come in although the door is shut: by a cut, by a move."""
        self.is_moving = False
        """Whether it is shut for a move to other servers."""

    def admits(self, worker: int, incarnation: int, sequence: int) -> bool:
        """Whether a push may come in now, also if the door is shut: it was taken before, or by another server."""
        with self._changed:
            return self._admits(worker, incarnation, sequence)

    def wait(self, worker: int, incarnation: int, sequence: int) -> bool:
        """Wait until a push may come in, for a while; whether it may."""
        with self._changed:
            return callers.wait_for(self._changed, lambda: self._admits(worker, incarnation, sequence), WAIT_S)

    def shut(self, allowed: Sequence[TakenPushes]) -> None:
        """Let in only these pushes of each worker from now on."""
        with self._changed:
            self.is_shut, self._allowed = True, allowed
            self._changed.notify_all()

    def open(self) -> None:
        """Let everything in."""
        with self._changed:
            self.is_shut, self._allowed = False, ()
            self._changed.notify_all()

    def _admits(self, worker: int, incarnation: int, sequence: int) -> bool:
        if not self.is_shut:
            return True
        allowed = self._allowed[worker]
        return incarnation == allowed.incarnation and sequence in allowed
