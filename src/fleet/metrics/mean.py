"""The mean over samples of what a function gives for each batch: a loss, an accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from fleet.errors import UsageError, UsageTypeError


class Mean:
    """The mean of `function(outputs, targets)`, each batch weighted by its number of samples.

    The function gives one number for a batch, itself a mean over the samples, as torch's losses do. The number of
    samples is the first dimension of the targets, or of the outputs where there are none.

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
        self._count = 0

    def update(self, outputs: Any, targets: Any) -> None:
        """Count a batch."""
        value = torch.as_tensor(self._function(outputs, targets)).detach()
        if value.numel() != 1:
            name = getattr(self._function, "__name__", type(self._function).__name__)
            raise UsageError(
                f"{name} must give one number for a batch, got shape {list(value.shape)}; let it return the mean"
            )
        num_samples = _num_samples(targets) or _num_samples(outputs) or 0
        if num_samples:
            # In double precision on the device of the value: nothing waits for it before the end.
            self._total = value.double().reshape(()) * num_samples + self._total.to(value.device)
            self._count += num_samples

    def compute(self) -> float:
        """The mean so far; NaN before the first sample."""
        return float(self._total) / self._count if self._count else float("nan")

    def state(self) -> torch.Tensor:
        """The sum and the number of samples, float64 [2]. States may be added."""
        return torch.tensor([float(self._total), float(self._count)], dtype=torch.float64)

    def merge(self, state: torch.Tensor) -> None:
        """Add another metric's `state()`."""
        if state.shape != (2,):
            raise UsageError("state must be the float64 [2] that state() gives: the sum and the number of samples")
        self._total = self._total + state[0].to(self._total.device)
        self._count += int(state[1])

    def reset(self) -> None:
        """Forget everything."""
        self._total = torch.zeros((), dtype=torch.float64)
        self._count = 0


def _num_samples(values: Any) -> int | None:
    """The first dimension of the first tensor that has one."""
    if isinstance(values, torch.Tensor):
        return values.shape[0] if values.dim() else 1
    parts: Iterable[Any] = values.values() if isinstance(values, Mapping) else ()
    if isinstance(values, list | tuple):
        parts = values
    return next((found for part in parts if (found := _num_samples(part)) is not None), None)
