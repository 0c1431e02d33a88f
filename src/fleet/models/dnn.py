"""CTR-DNN: rows of all categories and the numbers, side by side, through a few layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.base import Examples, Outputs, Recommender
from fleet.models.layers import mlp
from fleet.nn import Embedding
from fleet.ps.spec import RuleSpec


class DNN(Recommender):
    """One row of `dim` for each category, and `num_dense` numbers, through `hidden` layers."""

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
    ) -> None:
        super().__init__()
        self.rows = Embedding(dim, "rows", rule=rule)
        self.layers = mlp(num_dense + num_slots * dim, hidden, 1, dropout=dropout)

    def forward(self, batch: Examples) -> Outputs:
        rows = self.rows(batch.ids)  # [B, slots, dim]
        dense = batch.dense.to(rows.device)
        logits: torch.Tensor = self.layers(torch.cat([dense, rows.flatten(1)], dim=1))
        return logits.squeeze(1)
