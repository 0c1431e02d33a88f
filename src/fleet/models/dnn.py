"""CTR-DNN: rows of all categories and the numbers, side by side, through a few layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular, beside
from fleet.models.parts.layers import mlp


class DNN(Tabular):
    """One row of `dim` for each category, and `num_dense` numbers, through `hidden` layers."""

    def build(self, hidden: Sequence[int], dropout: float) -> None:
        self.layers = mlp(self.features.width, hidden, 1, dropout=dropout)

    def forward(self, batch: BatchLike) -> Outputs:
        logits: torch.Tensor = self.layers(beside(*self.features(batch)))
        return logits.squeeze(1)
