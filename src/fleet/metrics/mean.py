"""The mean over samples of what a function gives for each batch: a loss, an accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import inputs


class Mean:
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
        self._function = function
        self._total = torch.zeros((), dtype=torch.float64)
        self._count = torch.zeros((), dtype=torch.float64)
        self._doubts = inputs.Doubts()

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
        self._total, self._count = total + self._total.to(value.device), weights.sum() + self._count.to(value.device)

    def compute(self) -> float:
        """The mean so far; NaN before the first sample."""
        total, count = self.state().tolist()
        return float(total / count) if count else float("nan")

    def state(self) -> torch.Tensor:
        """The sum and the number of samples, or the sum of their weights, float64 [2]. States may be added."""
        self._doubts.settle()
        return torch.stack([self._total, self._count]).cpu()

    def merge(self, state: torch.Tensor) -> None:
        """Add another metric's `state()`."""
        if state.shape != (2,):
            raise UsageError("state must be the float64 [2] that state() gives: the sum and the number of samples")
        self._total = self._total + state[0].to(self._total.device)
        self._count = self._count + state[1].to(self._count.device)

    def reset(self) -> None:
        """Forget everything."""
        self._total = torch.zeros((), dtype=torch.float64)
        self._count = torch.zeros((), dtype=torch.float64)
        self._doubts = inputs.Doubts()


def _num_samples(values: Any) -> int | None:
    """The first dimension of the first tensor that has one."""
    if isinstance(values, torch.Tensor):
        return values.shape[0] if values.dim() else 1
    parts: Iterable[Any] = values.values() if isinstance(values, Mapping) else ()
    if isinstance(values, list | tuple):
        parts = values
    return next((found for part in parts if (found := _num_samples(part)) is not None), None)
