"""What all models of this package share: what they take, and what training and evaluation ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional

from fleet.errors import UsageError

Outputs = torch.Tensor
"""What `forward` gives: logits [B], or [B, labels] of a model with several."""


class BatchLike(Protocol):
    """A batch, as `fleet.data.Batch` has it; anything with these will do."""

    @property
    def label(self) -> torch.Tensor:
        """float32 [B], or [B, labels]."""

    @property
    def dense(self) -> torch.Tensor:
        """float32 [B, numbers]."""

    @property
    def ids(self) -> torch.Tensor:
        """int64 [B, categories]."""

    @property
    def slots(self) -> Mapping[str, Any]:
        """Categories with several values, by name: [B, length], or (values, offsets)."""

    @property
    def weight(self) -> torch.Tensor | None:
        """float32 [B]."""


class Recommender(nn.Module):
    """A model of clicks. `forward(batch)` gives logits; those that predict something else have a loss of their own."""

    def keys(self, batch: BatchLike) -> Any:
        """What the sparse modules will be called with, for `fleet.prefetch(batches, model, keys=net.keys)`."""
        return batch.ids

    def loss(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        """The loss of what `forward` gave: a mean over the batch, and with several labels their sum."""
        return log_loss(outputs, batch)

    def scores(self, outputs: Outputs) -> torch.Tensor:
        """What metrics are computed of: probabilities."""
        return torch.sigmoid(outputs)


def log_loss(logits: torch.Tensor, batch: BatchLike, target: torch.Tensor | None = None) -> torch.Tensor:
    """Cross entropy of logits [B] or [B, labels] with the labels (or with `target`, of that shape), weighted.

    Summed over labels and averaged over samples: the sum of the weights does not matter, so that the mean over equal
    parts of a batch is that of the batch.
    """
    target = batch.label if target is None else target
    if target.shape != logits.shape:
        raise UsageError(
            f"the batch has labels of shape {list(target.shape)}, and the model predicts {list(logits.shape)}; name as "
            "many label columns in the schema as the model has tasks"
        )
    losses = functional.binary_cross_entropy_with_logits(logits, target.to(logits), reduction="none")
    if losses.dim() == 2:
        losses = losses.sum(1)
    return (losses if batch.weight is None else losses * batch.weight.to(losses)).mean()
