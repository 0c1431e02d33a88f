"""Whether it is worth while to do work before it is known to be needed: learned from how often it was in vain."""

from __future__ import annotations

PATIENCE = 3
"""So many times in a row are accident."""
FIRST_REST = 64
LONGEST_REST = 4096


class Backoff:
    """After some rounds in vain it rests, and longer each time that the round after a rest is in vain again."""

    def __init__(self) -> None:
        self.resting = 0
        """For how many rounds nothing shall be done."""
        self._num_wasted = 0
        self._rest = FIRST_REST

    def note(self, done: int, used: int) -> bool:
        """How much was done in a round, and how much of it was of use; True if it rests from now on."""
        if self.resting:
            self.resting -= 1
            return False
        if not done:
            return False
        if 2 * used >= done:
            self._num_wasted, self._rest = 0, FIRST_REST
            return False
        self._num_wasted += 1
        if self._num_wasted < PATIENCE:
            return False
        self.resting, self._rest = self._rest, min(2 * self._rest, LONGEST_REST)
        self._num_wasted = PATIENCE - 1  # one more is enough then
        return True
