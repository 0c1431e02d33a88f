"""DLRM (Naumov et al., 2019): dot products of all pairs of rows; the numbers become a row of their own first."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular
from fleet.models.parts.layers import mlp, pairs
from fleet.ps.job.named_spec import RuleSpec


class DLRM(Tabular):
    """Numbers through `bottom` to a row of `dim`; its products with the rows, and theirs, through `hidden`."""

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
        bottom: Sequence[int] = (64,),
    ) -> None:
        super().__init__(num_dense, num_slots, dim, rule=rule, bags=bags)
        self.bottom = mlp(num_dense, (*bottom, dim)) if num_dense else None
        num_fields = self.features.num_fields + (num_dense > 0)
        num_pairs = num_fields * (num_fields - 1) // 2
        self.top = mlp(num_pairs + (dim if num_dense else 0), hidden, 1, dropout=dropout)

    def forward(self, batch: BatchLike) -> Outputs:
        dense, fields = self.features(batch)
        if self.bottom is None:
            seen = pairs(fields)
        else:
            numbers = self.bottom(dense)
            seen = torch.cat([numbers, pairs(torch.cat([numbers.unsqueeze(1), fields], dim=1))], dim=1)
        logits: torch.Tensor = self.top(seen)
        return logits.squeeze(1)
