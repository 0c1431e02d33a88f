"""DCNv2 (Wang et al., 2021): layers that cross the input with itself, beside a DNN or below it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular, beside
from fleet.models.parts.layers import CrossNetwork, mlp
from fleet.ps.job.named_spec import RuleSpec


class DCN(Tabular):
    """`cross_layers` cross layers over all rows and numbers, and a DNN.

    `stacked`: the DNN takes what the cross layers give, not the input. `rank`: their matrices are sums of `num_experts`
    matrices of that rank, chosen by a gate (DCN-Mix), which is cheaper where there are many fields.
    """

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
        cross_layers: int = 3,
        stacked: bool = False,
        rank: int | None = None,
        num_experts: int = 4,
    ) -> None:
        super().__init__(num_dense, num_slots, dim, rule=rule, bags=bags)
        width = self.features.width
        self.stacked = stacked
        self.cross = CrossNetwork(width, cross_layers, rank, num_experts)
        self.deep = mlp(width, hidden, dropout=dropout)
        deep = [width, *hidden][-1]
        self.out = mlp(deep if stacked else width + deep, (), 1)

    def forward(self, batch: BatchLike) -> Outputs:
        start = beside(*self.features(batch))
        crossed = self.cross(start)
        last = self.deep(crossed) if self.stacked else torch.cat([crossed, self.deep(start)], dim=1)
        logits: torch.Tensor = self.out(last)
        return logits.squeeze(1)
