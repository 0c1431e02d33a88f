"""DIN: of a user's history, what matters for the item at hand (Zhou et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleet.models.parts.base import BatchLike, Outputs, Recommender
from fleet.models.parts.features import bags_of, check_widths
from fleet.models.parts.histories import TargetAttention, fields_of, held, matrix, one_table, weighted_sum
from fleet.models.parts.layers import bent_mlp
from fleet.ps.job.named_spec import RuleSpec


class DIN(Recommender):
    """Column `item` of a batch's ids is the target; slot `history` has ids of the same kind, [B, L], 0 is padding.

    Slots `bags` are pooled, and go beside the ids.
    """

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        item: int = 0,
        history: str = "history",
        dim: int = 16,
        hidden: Sequence[int] = (200, 80),
        attention: Sequence[int] = (36,),
        activation: str = "dice",
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
        bags: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.bags = tuple(bags)
        self.num_dense, self.num_slots, self.item, self.history = num_dense, num_slots, item, history
        self.rows = one_table(dim, ["ids"], ["history"], rule, bags=self.bags)
        self.attention = TargetAttention(dim, attention)
        self.layers = bent_mlp(num_dense + (num_slots + len(self.bags) + 2) * dim, hidden, activation, dropout)

    def keys(self, batch: BatchLike) -> Any:
        return {"ids": batch.ids, "history": matrix(batch, self.history), **bags_of(batch, self.bags)}

    def forward(self, batch: BatchLike) -> Outputs:
        check_widths(batch, self.num_dense, self.num_slots)
        keys = self.keys(batch)
        rows = self.rows(keys)
        fields, history = fields_of(rows, self.bags), rows["history"]  # [B, slots + bags, dim], [B, L, dim]
        target = fields[:, self.item]
        weights = self.attention(history, target, held(keys["history"], history.device))
        interest = weighted_sum(weights, history)
        dense = batch.dense.to(fields.device)
        logits: torch.Tensor = self.layers(torch.cat([dense, fields.flatten(1), interest, interest * target], dim=1))
        return logits.squeeze(1)
