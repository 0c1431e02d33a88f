"""When to stop working ahead for a while: after work that turned out not to be needed."""

from __future__ import annotations

PATIENCE = 3
"""How many rounds in a row must be wasted before the first rest."""
FIRST_REST = 64
LONGEST_REST = 4096


class Backoff:
    """Rests after some wasted rounds, and twice as long each time that the round after a rest is wasted too."""

    def __init__(self) -> None:
        self.resting = 0
        """For how many more rounds nothing shall be done."""
        self._num_wasted = 0
        self._rest = FIRST_REST

    def note(self, done: int, used: int) -> bool:
        """Note how much was done in a round, and how much of it was of use; True if a rest begins."""
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
        self._num_wasted = PATIENCE - 1  # after a rest, one wasted round is enough
        return True
