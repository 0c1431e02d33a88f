"""How far numbers are off: the mean absolute error, and the root of the mean square."""

from __future__ import annotations

import math

import torch

from fleet.metrics import inputs
from fleet.metrics.sums import Sums


class _Difference(Sums):
    def _of(self, difference: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def update(self, outputs: torch.Tensor, targets: torch.Tensor, *, weight: torch.Tensor | None = None) -> None:
        """Count a batch: numbers, all of one shape."""
        shaped = outputs
        outputs, targets = inputs.pair(outputs, targets, ("outputs", "targets"))
        difference = outputs.double() - targets.double()
        inputs.numbers(self._doubts, difference, "outputs and targets")
        weights = inputs.weights(self._doubts, weight, shaped, "sample")
        self._add(torch.stack([(self._of(difference) * weights).sum(), weights.sum()]))


class MAE(_Difference):
    """The mean of |output - target|.

    >>> metric = MAE()
    >>> metric.update(torch.tensor([1.0, 3.0]), torch.tensor([1, 1]))
    >>> metric.compute()
    1.0
    """

    def _of(self, difference: torch.Tensor) -> torch.Tensor:
        return difference.abs()


class RMSE(_Difference):
    """The square root of the mean of (output - target)^2.

    >>> metric = RMSE()
    >>> metric.update(torch.tensor([1.0, 3.0]), torch.tensor([-3, 3]))
    >>> round(metric.compute(), 4)
    2.8284
    """

    def _of(self, difference: torch.Tensor) -> torch.Tensor:
        return difference.square()

    def compute(self) -> float:
        """The value of everything counted so far; NaN before the first sample."""
        return math.sqrt(super().compute())
