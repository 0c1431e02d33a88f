"""Whether probabilities are what they say: how many clicks were predicted, and how many came."""

from __future__ import annotations

from typing import NamedTuple

import torch

from fleet.checks import count_of, flag_of
from fleet.metrics import inputs
from fleet.metrics.metric import Sums


class Bin(NamedTuple):
    """The samples whose probability lies from `low` to `high`."""

    low: float
    high: float
    num_samples: float  # the sum of their weights, where they have some
    predicted: float  # the mean of their probabilities
    actual: float  # their share of clicks


class Calibration(Sums):
    """Predicted clicks over actual ones: 1 is right, 1.1 is a tenth too many. NaN until there was a click.

    `table()` has the same by probability, in `num_bins` equal parts of [0, 1], and `error()` the expected calibration
    error: the mean over samples of the distance between prediction and outcome of their part.

    >>> metric = Calibration()
    >>> metric.update(torch.tensor([0.25, 0.25, 0.75, 0.75]), torch.tensor([0, 0, 1, 1]))
    >>> metric.compute(), metric.error()
    (1.0, 0.25)
    """

    def __init__(self, num_bins: int = 20, *, from_logits: bool = False) -> None:
        self._num_bins = count_of("num_bins", num_bins)
        self._shape = (3, self._num_bins)  # samples, predicted, actual; all times the weights
        self._from_logits = flag_of("from_logits", from_logits)
        super().__init__()

    def update(self, scores: torch.Tensor, labels: torch.Tensor, *, weight: torch.Tensor | None = None) -> None:
        """Count a batch: scores in [0, 1] (or logits), labels 0 or 1 of any type, and weights, all of one shape."""
        shaped = scores
        scores, labels = inputs.pair(scores, labels, ("scores", "labels"))
        inputs.labels(self._doubts, labels)
        if self._from_logits:
            inputs.numbers(self._doubts, scores, "logits")
            scores = torch.sigmoid(scores.double())
        else:
            inputs.probabilities(self._doubts, scores, type(self).__name__)
        scores = scores.double().nan_to_num()
        part = (scores * self._num_bins).long().clamp(0, self._num_bins - 1)
        weights = inputs.weights(self._doubts, weight, shaped, "sample")
        values = torch.stack([weights, scores * weights, labels.double() * weights])
        self._add(torch.zeros_like(self._sums, device=scores.device).index_add_(1, part, values))

    def compute(self) -> float:
        """Predicted clicks over actual ones."""
        _, predicted, actual = self._read().sum(1).tolist()
        return float(predicted / actual) if actual else float("nan")

    def error(self) -> float:
        """The expected calibration error; NaN before the first sample."""
        num, predicted, actual = self._read()
        return float((predicted - actual).abs().sum() / num.sum())

    def table(self) -> list[Bin]:
        """A line for each part that has samples."""
        rows = self._read().T.tolist()
        width = 1 / self._num_bins
        return [
            Bin(part * width, (part + 1) * width, num, predicted / num, actual / num)
            for part, (num, predicted, actual) in enumerate(rows)
            if num
        ]


class CalibrationError(Calibration):
    """`Calibration` whose value is `error()`: the expected calibration error, 0 at best."""

    def compute(self) -> float:
        """The expected calibration error."""
        return self.error()
