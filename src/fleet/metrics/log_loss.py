"""The log loss of probabilities of clicks."""

from __future__ import annotations

import torch

from fleet.metrics import inputs
from fleet.metrics.sums import Sums


class LogLoss(Sums):
    """The mean of -log(probability of the label that came).

    A probability of 0 or 1, or nearer to it than that, counts as one that is `torch.finfo(dtype).eps` away from it;
    for dtypes of 16 bits that of float32. With `from_logits` outputs are logits.

    >>> metric = LogLoss()
    >>> metric.update(torch.tensor([0.5, 0.5]), torch.tensor([1, 0]))
    >>> round(metric.compute(), 4)
    0.6931
    """

    def __init__(self, *, from_logits: bool = False) -> None:
        super().__init__()
        self._from_logits = inputs.flag("from_logits", from_logits)

    def update(self, scores: torch.Tensor, labels: torch.Tensor, *, weight: torch.Tensor | None = None) -> None:
        """Count a batch: scores in [0, 1] (or logits), labels 0 or 1 of any type, and weights, all of one shape."""
        shaped = scores
        scores, labels = inputs.pair(scores, labels, ("scores", "labels"))
        inputs.labels(self._doubts, labels)
        labels = labels.double()
        weights = inputs.weights(self._doubts, weight, shaped, "sample")
        if self._from_logits:
            inputs.numbers(self._doubts, scores, "logits")
            total = torch.nn.functional.binary_cross_entropy_with_logits(
                scores.double(), labels, weights, reduction="sum"
            )
        else:
            inputs.probabilities(self._doubts, scores, "LogLoss")
            eps = min(torch.finfo(scores.dtype).eps, torch.finfo(torch.float32).eps)  # rare events in 16 bits are rare
            total = torch.nn.functional.binary_cross_entropy(
                scores.double().nan_to_num().clamp(eps, 1 - eps), labels.clamp(0, 1), weights, reduction="sum"
            )
        self._add(torch.stack([total, weights.sum()]))
