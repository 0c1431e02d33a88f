"""What `fleet.evaluate` asks of a metric: counts that are kept in each worker, and added up at the end."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch


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
