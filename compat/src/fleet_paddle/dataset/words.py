"""What datasets of text share: dictionaries by frequency, and made-up words that are as frequent as words are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

UNKNOWN = "<unk>"


def dictionary(counts: Counter[str], cutoff: int) -> dict[str, int]:
    """Words that occur more than `cutoff` times, the most frequent first, then `<unk>`, by their numbers."""
    counts.pop(UNKNOWN, None)
    kept = sorted(((-count, word) for word, count in counts.items() if count > cutoff))
    numbers = {word: place for place, (_, word) in enumerate(kept)}
    numbers[UNKNOWN] = len(numbers)
    return numbers


def count(texts: Iterable[Iterable[str]], counts: Counter[str] | None = None) -> Counter[str]:
    """How often each word occurs."""
    counts = Counter() if counts is None else counts
    for text in texts:
        counts.update(text)
    return counts


def made_up(number: int) -> npt.NDArray[np.object_]:
    """As many words, none of which means anything."""
    return np.array([f"w{place}" for place in range(number)], object)


def frequencies(number: int) -> npt.NDArray[np.float64]:
    """The share of each word in a text, falling as Zipf has seen."""
    weights = 1.0 / (np.arange(number) + 2.7)
    share: npt.NDArray[np.float64] = weights / weights.sum()
    return share
