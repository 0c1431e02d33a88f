"""What all models of this package share: what they take, and what training and evaluation ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional

Outputs = torch.Tensor
"""What `forward` gives: logits [B], or [B, labels] of a model with several."""


class Examples(Protocol):
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

    def keys(self, batch: Examples) -> Any:
        """What the sparse modules will be called with, for `fleet.prefetch(batches, model, keys=net.keys)`."""
        return batch.ids

    def loss(self, outputs: Outputs, batch: Examples) -> torch.Tensor:
        """The loss of what `forward` gave, a mean over the batch."""
        label = batch.label.to(outputs.device)
        weight = None if batch.weight is None else batch.weight.to(outputs.device)
        return functional.binary_cross_entropy_with_logits(outputs, label, weight)

    def scores(self, outputs: Outputs) -> torch.Tensor:
        """What metrics are computed of: probabilities."""
        return torch.sigmoid(outputs)
