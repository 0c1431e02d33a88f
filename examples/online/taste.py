"""Clicks whose taste drifts: what people of a segment like goes round once in `TURN_S` seconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SEGMENTS, ITEMS = 40, 200
TURN_S = 90.0
STRENGTH = 3.0


class Taste:
    """Who likes what at which time. Segments and items are directions; what points the same way is clicked."""

    def __init__(self, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self._segments, self._items = random.uniform(0, 2 * np.pi, SEGMENTS), random.uniform(0, 2 * np.pi, ITEMS)

    def logits(self, segment: NDArray[np.int64], item: NDArray[np.int64], at: float) -> NDArray[np.float64]:
        """How much a segment likes an item at a time, in seconds."""
        angle = self._segments[segment] + 2 * np.pi * at / TURN_S - self._items[item]
        return STRENGTH * np.cos(angle)

    def clicks(self, num: int, at: float, random: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
        """Draw impressions: segment, item, and whether it was clicked."""
        segment, item = random.integers(0, SEGMENTS, num), random.integers(0, ITEMS, num)
        likes = 1 / (1 + np.exp(-self.logits(segment, item, at)))
        return segment, item, (random.random(num) < likes).astype(np.int64)


def auc(scores: NDArray[np.floating], clicks: NDArray[np.int64]) -> float:
    """The probability that a clicked impression scores higher than one that was not; a tie counts half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    clicked = clicks == 1
    num, other = int(clicked.sum()), int((~clicked).sum())
    return float((rank[clicked].sum() - num * (num + 1) / 2) / (num * other)) if num and other else 0.5
