"""MMoE (Ma et al., 2018): experts that all tasks share, and a gate for each task that says which of them it hears."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fleet.models.parts.base import BatchLike, Outputs
from fleet.models.parts.features import Tabular, beside
from fleet.models.parts.layers import Experts, Gate, mlp
from fleet.ps.job.checks import checked
from fleet.ps.job.named_spec import RuleSpec
from fleet.strategy.check import Whole


class MMoE(Tabular):
    """`num_tasks` logits from `num_experts` experts with `experts` widths; `hidden` are those of each task's tower."""

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        dim: int = 16,
        hidden: Sequence[int] = (64,),
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
        num_tasks: int = 2,
        num_experts: int = 8,
        experts: Sequence[int] = (256, 128),
    ) -> None:
        super().__init__(num_dense, num_slots, dim, rule=rule, bags=bags)
        num_tasks = checked("the model", "num_tasks", num_tasks, Whole(least=1))
        width = self.features.width
        self.experts = Experts(width, experts, num_experts, dropout=dropout)
        self.gates = nn.ModuleList(Gate(width, num_experts) for _ in range(num_tasks))
        self.towers = nn.ModuleList(mlp(self.experts.width, hidden, 1, dropout=dropout) for _ in range(num_tasks))

    def forward(self, batch: BatchLike) -> Outputs:
        x = beside(*self.features(batch))
        said = self.experts(x)  # [B, experts, width]
        logits = [tower(gate(x, said)) for gate, tower in zip(self.gates, self.towers, strict=True)]
        return torch.cat(logits, dim=1)
