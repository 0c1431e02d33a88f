"""What `fleet.evaluate` asks of a metric: counts that are kept in each worker, and added up at the end; as sums."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch

from fleet.errors import UsageError, UsageTypeError
from fleet.metrics.inputs import Doubts


@runtime_checkable
class Metric(Protocol):
    """Anything with these five methods; `fleet.metrics.AUC` is one.

    The state is a tensor of whatever shape. Merging the states of all workers, one after the other, must give what one
    metric would have that had seen all of their batches.
    """

    def update(self, outputs: Any, targets: Any, /) -> None:
        """Count a batch."""

    def state(self) -> torch.Tensor:
        """A copy of what was counted."""

    def merge(self, state: torch.Tensor, /) -> None:
        """Add what another metric of the same kind counted."""

    def compute(self) -> float:
        """The value of everything counted so far."""

    def reset(self) -> None:
        """Forget everything."""


class Sums:
    """A metric whose state is sums in double precision, on the device of what was given last: nothing waits for it."""

    _shape: tuple[int, ...] = (2,)
    """The sum of what is measured, and the number of samples, or the sum of their weights; others have more."""

    def __init__(self) -> None:
        self._doubts = Doubts()
        self._sums = torch.zeros(self._shape, dtype=torch.float64)

    def _add(self, sums: torch.Tensor) -> None:
        self._sums = self._sums.to(sums.device) + sums.detach().double()

    def _read(self) -> torch.Tensor:
        self._doubts.settle()
        return self._sums.cpu()

    def compute(self) -> float:
        """The value of everything counted so far; NaN before the first sample."""
        total, num = self._read().tolist()
        return float(total / num) if num else float("nan")

    def state(self) -> torch.Tensor:
        """A copy of the sums, float64. States may be added."""
        return self._read().clone()

    def merge(self, state: torch.Tensor) -> None:
        """Add another metric's `state()`."""
        check_state(self, state, torch.float64, tuple(self._sums.shape))
        self._sums = self._sums + state.to(self._sums.device)

    def reset(self) -> None:
        """Forget everything."""
        self._doubts = Doubts()
        self._sums = torch.zeros_like(self._sums, device="cpu")


def check_state(metric: object, state: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """UsageError if it is not what `state()` of such a metric gives."""
    if not isinstance(state, torch.Tensor):
        raise UsageTypeError(f"state must be a tensor, got {type(state).__name__}")
    if state.dtype is not dtype or tuple(state.shape) != shape:
        raise UsageError(
            f"state must be the {dtype} {list(shape)} that {type(metric).__name__}.state() gives, got {state.dtype} "
            f"{list(state.shape)}; use the same settings on every worker"
        )
