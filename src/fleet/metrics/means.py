"""Metrics that are a mean over samples: of any function, of errors, of the log loss, of right answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from fleet.checks import flag_of
from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import inputs
from fleet.metrics.metric import Sums


class Mean(Sums):
    """The mean of `function(outputs, targets)`, each batch weighted by its number of samples.

    The function gives one number for a batch, itself a mean over the samples, as torch's losses do; or one for each
    sample, as they do with `reduction="none"`, which it must where samples have weights. The number of samples is the
    first dimension of the targets, or of the outputs where there are none.

    >>> metric = Mean(torch.nn.functional.mse_loss)
    >>> metric.update(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
    >>> metric.update(torch.tensor([1.0]), torch.tensor([0.0]))
    >>> round(metric.compute(), 4)
    1.6667
    """

    def __init__(self, function: Callable[[Any, Any], torch.Tensor | float]) -> None:
        if not callable(function):
            raise UsageTypeError(f"Mean takes a function of outputs and targets, got {type(function).__name__}")
        super().__init__()
        self._function = function

    def update(self, outputs: Any, targets: Any, *, weight: torch.Tensor | None = None) -> None:
        """Count a batch. `weight`: of each sample, [B]; the function then gives one number for each."""
        value = torch.as_tensor(self._function(outputs, targets)).detach().double()
        num_samples = _num_samples(targets) or _num_samples(outputs) or 0
        if not num_samples:
            return
        is_each = value.shape == (num_samples,)
        name = getattr(self._function, "__name__", type(self._function).__name__)
        if weight is not None and not is_each:
            raise UsageError(
                f"{name} must give one number for each of the {num_samples} samples where they have weights, got shape "
                f"{list(value.shape)}; let it return them without a reduction"
            )
        if not is_each and value.numel() != 1:
            raise UsageError(
                f"{name} must give one number for a batch, or for each of its {num_samples} samples, got shape "
                f"{list(value.shape)}; let it return the mean"
            )
        # In double precision on the device of the value: nothing waits for it before the end.
        values = value if is_each else value.reshape(1).expand(num_samples)
        weights = inputs.weights(self._doubts, weight, values, "sample")
        total = (values * weights).sum() if is_each else value.reshape(()) * num_samples
        self._add(torch.stack([total, weights.sum()]))


def _num_samples(values: Any) -> int | None:
    """The first dimension of the first tensor that has one."""
    if isinstance(values, torch.Tensor):
        return values.shape[0] if values.dim() else 1
    parts: Iterable[Any] = values.values() if isinstance(values, Mapping) else ()
    if isinstance(values, list | tuple):
        parts = values
    return next((found for part in parts if (found := _num_samples(part)) is not None), None)


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
        self._from_logits = flag_of("from_logits", from_logits)

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
