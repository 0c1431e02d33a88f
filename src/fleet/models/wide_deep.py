"""Wide & Deep (Cheng et al., 2016): a linear model, which remembers, and a deep one, which generalises, added up."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular, beside
from fleet.models.parts.layers import NumberFields, mlp


class WideDeep(Tabular):
    """A weight for each category and number, plus a DNN over rows of `dim`.

    A row has `1 + dim` floats, and the first is the weight: one lookup serves both parts. Crossed columns, which the
    wide part lives on, are categories of the schema like any other.
    """

    first_order = True

    def build(self, hidden: Sequence[int], dropout: float) -> None:
        self.numbers = NumberFields(self.features.num_dense, 1)
        self.deep = mlp(self.features.num_dense + self.features.num_fields * self.dim, hidden, 1, dropout=dropout)

    def forward(self, batch: BatchLike) -> Outputs:
        dense, rows = self.features(batch)
        weights, rows = rows[..., :1], rows[..., 1:]
        wide = torch.cat([self.numbers(dense), weights], dim=1).sum((1, 2))
        deep: torch.Tensor = self.deep(beside(dense, rows))
        return wide + deep.squeeze(1)
