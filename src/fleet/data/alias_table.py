"""Draws from a discrete distribution in constant time each (Walker's alias method), the table made without a loop."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class AliasTable:
    """Place i is drawn with probability weights[i] / sum(weights)."""

    def __init__(self, weights: Floats) -> None:
        """Each place has 1 / n of the line; what a rare one leaves of its part goes to one frequent one.

        The rare are filled up in order by the frequent ones. A frequent one that has given too much is filled up by
        the next: how far each has come is a sum over those before it, so that all are found at once.
        """
        num = len(weights)
        share = weights * (num / weights.sum())
        rare, frequent = np.flatnonzero(share < 1), np.flatnonzero(share >= 1)
        wanted, given = np.cumsum(1 - share[rare]), np.cumsum(share[frequent] - 1)
        self._own = np.ones(num)
        self._other = np.arange(num)
        if len(frequent) in (0, num):  # all alike, but for rounding
            return
        before = np.concatenate([[0.0], wanted[:-1]])
        giver = np.minimum(np.searchsorted(given, before), len(frequent) - 1)
        self._own[rare] = share[rare]
        self._other[rare] = frequent[giver]
        overdrawn = np.searchsorted(wanted, given[:-1], side="right")
        is_overdrawn = overdrawn < len(wanted)
        places = frequent[:-1][is_overdrawn]
        self._own[places] = 1 + given[:-1][is_overdrawn] - wanted[overdrawn[is_overdrawn]]
        self._other[places] = frequent[1:][is_overdrawn]

    def draw(self, uniform: Floats) -> Places:
        """The places of numbers that lie evenly in [0, 1)."""
        scaled = uniform * len(self._own)
        place = scaled.astype(np.int64)
        return np.where(scaled - place < self._own[place], place, self._other[place])

    def shares(self) -> Floats:
        """The probability of each place, as the table has it."""
        num = len(self._own)
        return (self._own + np.bincount(self._other, 1 - self._own, num)) / num
