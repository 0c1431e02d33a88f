"""CTR-DNN: rows of all categories and the numbers, side by side, through a few layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular, beside
from fleet.models.parts.layers import mlp
from fleet.ps.job.named_spec import RuleSpec


class DNN(Tabular):
    """One row of `dim` for each category, and `num_dense` numbers, through `hidden` layers."""

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
    ) -> None:
        super().__init__(num_dense, num_slots, dim, rule, bags)
        self.layers = mlp(self.features.width, hidden, 1, dropout=dropout)

    def forward(self, batch: BatchLike) -> Outputs:
        logits: torch.Tensor = self.layers(beside(*self.features(batch)))
        return logits.squeeze(1)
