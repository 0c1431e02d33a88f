"""The share of right answers."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import inputs
from fleet.metrics.sums import Sums


class Accuracy(Sums):
    """The share of samples whose class is the right one.

    Outputs with a dimension more than the targets have a score for each class, and the greatest says which. Otherwise
    they are the probability of class 1, which is meant at `threshold` or above it (0 for logits).

    >>> metric = Accuracy()
    >>> metric.update(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    >>> metric.compute()
    0.5
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__()
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            raise UsageTypeError(f"threshold must be a number, got {threshold!r}")
        self._threshold = float(threshold)

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same on every worker."""
        return {"threshold": self._threshold}

    def update(self, outputs: torch.Tensor, targets: torch.Tensor, *, weight: torch.Tensor | None = None) -> None:
        """Count a batch: scores [B, classes] and classes [B], or probabilities and labels of one shape.

        `weight`: of each sample, of the shape of the targets.
        """
        inputs.tensors(outputs=outputs, targets=targets)
        each = targets.to(outputs.device)
        if outputs.dim() == targets.dim() + 1 and outputs.shape[:-1] == targets.shape and outputs.shape[-1] > 1:
            inputs.numbers(self._doubts, outputs.detach(), "outputs")
            is_right = outputs.detach().argmax(-1).flatten() == targets.detach().flatten().to(outputs.device)
        elif outputs.shape == targets.shape:
            outputs, targets = inputs.pair(outputs, targets, ("outputs", "targets"))
            inputs.numbers(self._doubts, outputs, "outputs")
            inputs.labels(self._doubts, targets)
            is_right = (outputs >= self._threshold) == (targets > 0)
        else:
            raise UsageError(
                "outputs must be of the targets' shape, or have a score for each of two classes or more behind it, got "
                f"{list(outputs.shape)} and {list(targets.shape)}; for one score a sample give outputs.squeeze(1)"
            )
        weights = inputs.weights(self._doubts, weight, each, "sample")
        self._add(torch.stack([(weights * is_right).sum(), weights.sum()]))
