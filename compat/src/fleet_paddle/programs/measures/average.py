"""`WeightedAverage`: a mean of numbers that a script adds, each with a weight, such as losses of batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.errors import NotReadyError, UsageTypeError


class WeightedAverage:
    """The mean of what was added since the last `reset`.

    >>> average = WeightedAverage()
    >>> average.add(value=2.0, weight=1)
    >>> average.add(value=4.0, weight=3)
    >>> average.eval()
    3.5
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self._total: Any = 0.0
        self._weight = 0.0

    def add(self, value: Any, weight: Any) -> None:
        """Add a number, or an array of which each element is averaged."""
        for name, given in (("value", value), ("weight", weight)):
            if not np.issubdtype(np.asarray(given).dtype, np.number):
                raise UsageTypeError(f"WeightedAverage.add: {name} must be a number or an array, got {given!r}")
        self._total = self._total + np.asarray(value) * weight
        self._weight += float(np.asarray(weight).reshape(-1)[0])

    def eval(self) -> Any:
        """The mean; NotReadyError if nothing was added."""
        if self._weight == 0:
            raise NotReadyError("WeightedAverage.eval: nothing was added yet; call add(value=..., weight=...) first")
        mean = self._total / self._weight
        return mean.item() if np.ndim(mean) == 0 else mean
