"""xDeepFM (Lian et al., 2018): explicit interactions of every order by a CIN, beside a linear part and a DNN."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular
from fleet.models.parts.layers import CIN, NumberFields, mlp
from fleet.ps.job.named_spec import RuleSpec


class XDeepFM(Tabular):
    """First order, a CIN with `maps` feature maps in its layers, and a DNN; every number is a field too."""

    first_order = True

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
        maps: Sequence[int] = (16, 16),
    ) -> None:
        super().__init__(num_dense, num_slots, dim, rule=rule, bags=bags)
        num_fields = num_dense + self.features.num_fields
        self.numbers = NumberFields(num_dense, 1 + dim)
        self.cin = CIN(num_fields, maps)
        self.of_cin = nn.Linear(self.cin.width, 1, bias=False)
        self.deep = mlp(num_fields * dim, hidden, 1, dropout=dropout)

    def forward(self, batch: BatchLike) -> Outputs:
        dense, rows = self.features(batch)
        both = torch.cat([self.numbers(dense), rows], dim=1)
        weights, fields = both[..., 0], both[..., 1:]
        explicit: torch.Tensor = self.of_cin(self.cin(fields)) + self.deep(fields.flatten(1))
        return weights.sum(1) + explicit.squeeze(1)
