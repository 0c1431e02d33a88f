"""PLE (Tang et al., 2020): experts of each task beside shared ones, in levels, so that tasks do not hurt each other."""

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


class Level(nn.Module):
    """A vector for each task and, last, a shared one -> the same: each a gated mean of the experts it may hear.

    A task hears its own experts and the shared ones; the shared vector hears all. The last level has no shared one.
    """

    def __init__(
        self, width: int, experts: Sequence[int], num_tasks: int, own: int, shared: int, dropout: float, is_last: bool
    ) -> None:
        super().__init__()
        self.own = nn.ModuleList(Experts(width, experts, own, dropout=dropout) for _ in range(num_tasks))
        self.shared = Experts(width, experts, shared, dropout=dropout)
        self.width = self.shared.width
        self.gates = nn.ModuleList(Gate(width, own + shared) for _ in range(num_tasks))
        self.shared_gate = None if is_last else Gate(width, num_tasks * own + shared)

    def forward(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        *of_tasks, common = inputs
        own = [experts(x) for experts, x in zip(self.own, of_tasks, strict=True)]
        shared = self.shared(common)
        out = [
            gate(x, torch.cat([said, shared], dim=1)) for gate, x, said in zip(self.gates, of_tasks, own, strict=True)
        ]
        if self.shared_gate is not None:
            out.append(self.shared_gate(common, torch.cat([*own, shared], dim=1)))
        return out


class PLE(Tabular):
    """`num_tasks` logits. Every level has `own_experts` for each task and `shared_experts`, with `experts` widths."""

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
        num_levels: int = 2,
        own_experts: int = 2,
        shared_experts: int = 2,
        experts: Sequence[int] = (256, 128),
    ) -> None:
        super().__init__(num_dense, num_slots, dim, rule=rule, bags=bags)
        self.num_tasks = checked("the model", "num_tasks", num_tasks, Whole(least=1))
        num_levels = checked("the model", "num_levels", num_levels, Whole(least=1))
        levels, width = [], self.features.width
        for number in range(1, num_levels + 1):
            is_last = number == num_levels
            levels.append(Level(width, experts, num_tasks, own_experts, shared_experts, dropout, is_last))
            width = levels[-1].width
        self.levels = nn.Sequential(*levels)
        self.towers = nn.ModuleList(mlp(width, hidden, 1, dropout=dropout) for _ in range(num_tasks))

    def forward(self, batch: BatchLike) -> Outputs:
        x = beside(*self.features(batch))
        of_tasks = self.levels([x] * (self.num_tasks + 1))
        return torch.cat([tower(one) for tower, one in zip(self.towers, of_tasks, strict=True)], dim=1)
