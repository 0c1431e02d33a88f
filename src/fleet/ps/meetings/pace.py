"""How fast workers go through an epoch of a queue, and who would hold up the others at its end.

Near the end of an epoch a slow worker that takes one more piece would hold everybody up. It is told that there are no
more, if faster workers will have done all that is left before it could have done that piece. Among those
that still take pieces the fastest is never told so: everything is handed out.

How fast workers are is measured, not part of a server's state: after a restart everybody is handed pieces until it is
known again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

SHORTEST_S = 0.05
"""Pieces that take less than this hold up nobody."""
MUCH_SLOWER = 1.5
NUM_MEASURED = 4
"""Takes of a worker before its pace is believed. The first two come at once: one piece is read ahead."""


@dataclass
class _Runner:
    began_at: float
    last_at: float
    num_takes: int = 1
    is_over: bool = False

    @property
    def piece_s(self) -> float | None:
        """Seconds for a piece, if they are known."""
        if self.num_takes < NUM_MEASURED:
            return None
        return (self.last_at - self.began_at) / (self.num_takes - 2)

    def is_running(self, now: float) -> bool:
        """Whether it is likely to come again."""
        piece_s = self.piece_s
        return not self.is_over and piece_s is not None and now - self.last_at < 3 * piece_s + SHORTEST_S


class Pace:
    """How fast each worker goes through one epoch. `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._runners: dict[int, _Runner] = {}

    def note(self, worker: int) -> None:
        """A worker asks for a piece that it has not had."""
        now = self._clock()
        runner = self._runners.get(worker)
        if runner is None:
            self._runners[worker] = _Runner(now, now)
        else:
            runner.num_takes += 1
            runner.last_at = now

    def holds_up(self, worker: int, num_left: int) -> bool:
        """Whether a worker that has asked would end with one more piece after others have done all that is left."""
        now, own = self._clock(), self._runners[worker]
        if own.is_over:
            return True
        others = [
            piece_s
            for index, runner in self._runners.items()
            if index != worker and runner.is_running(now) and (piece_s := runner.piece_s) is not None
        ]
        own_s = own.piece_s
        if own_s is None or own_s < SHORTEST_S or not others or own_s <= MUCH_SLOWER * min(others):
            return False
        # It begins with the piece that it has read ahead; so do the others, who are somewhere inside another one too.
        speed = sum(1 / max(piece_s, 1e-9) for piece_s in others)
        own.is_over = 2 * own_s > (num_left + 1.5 * len(others)) / speed
        return own.is_over
