"""DeepFM (Guo et al., 2017): a factorisation machine and a DNN over the same rows, added up."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular
from fleet.models.parts.layers import NumberFields, mlp, sum_of_pairs


class DeepFM(Tabular):
    """First order, pairs of fields, and a DNN; every number is a field too.

    A row has `1 + dim` floats, and the first is the first-order weight: one lookup serves all three parts.
    """

    first_order = True

    def build(self, hidden: Sequence[int], dropout: float) -> None:
        self.numbers = NumberFields(self.features.num_dense, 1 + self.dim)
        self.deep = mlp((self.features.num_dense + self.features.num_fields) * self.dim, hidden, 1, dropout=dropout)

    def forward(self, batch: BatchLike) -> Outputs:
        dense, rows = self.features(batch)
        both = torch.cat([self.numbers(dense), rows], dim=1)
        weights, fields = both[..., 0], both[..., 1:]
        deep: torch.Tensor = self.deep(fields.flatten(1))
        return weights.sum(1) + sum_of_pairs(fields) + deep.squeeze(1)
