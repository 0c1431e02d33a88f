"""DIEN: how interests evolve towards the item at hand (Zhou et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fleet.models.parts.base import BatchLike, Outputs, Recommender
from fleet.models.parts.features import bags_of, check_widths
from fleet.models.parts.histories import TargetAttention, fields_of, held, matrix, one_table, to_front
from fleet.models.parts.layers import bent_mlp
from fleet.ps.job.named_spec import RuleSpec


class AUGRU(nn.Module):
    """A GRU whose update gate is scaled by attention: an item without attention leaves the state as it was."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.input, self.state = nn.Linear(dim, 3 * dim), nn.Linear(dim, 3 * dim)

    def forward(self, inputs: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        """The last state [B, dim] of inputs [B, L, dim]; places with attention 0 are passed over."""
        state = torch.zeros_like(inputs[:, 0])
        for given, weight in zip(self.input(inputs).unbind(1), attention.unbind(1), strict=True):
            reset_in, update_in, new_in = given.chunk(3, dim=1)
            reset_state, update_state, new_state = self.state(state).chunk(3, dim=1)
            new = torch.tanh(new_in + torch.sigmoid(reset_in + reset_state) * new_state)
            update = torch.sigmoid(update_in + update_state) * weight.unsqueeze(1)
            state = (1 - update) * state + update * new
        return state


class DIEN(Recommender):
    """As DIN, but interests are the states of a GRU over the history, and attention moves them along.

    `forward` gives [B, 2]: the logit of a click, and the sample's auxiliary loss (0 in evaluation). That asks of each
    state to tell the next item from one that was not clicked, in slot `negatives`, [B, L] like the history, aligned
    with it; its share in the loss is `auxiliary`. With `auxiliary=0` no such slot is needed.
    """

    def __init__(
        self,
        num_dense: int,
        num_slots: int,
        item: int = 0,
        history: str = "history",
        negatives: str = "negatives",
        auxiliary: float = 1.0,
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
        self.num_dense, self.num_slots = num_dense, num_slots
        self.item, self.history, self.negatives, self.auxiliary = item, history, negatives, auxiliary
        self.rows = one_table(
            dim, ["ids"], ["history", "negatives"] if auxiliary else ["history"], rule, bags=self.bags
        )
        self.interests = nn.GRU(dim, dim, batch_first=True)
        self.attention = TargetAttention(dim, attention, softmax=True)
        self.evolution = AUGRU(dim)
        self.layers = bent_mlp(num_dense + (num_slots + len(self.bags) + 2) * dim, hidden, activation, dropout)

    def keys(self, batch: BatchLike) -> Any:
        keys = {"ids": batch.ids, "history": matrix(batch, self.history), **bags_of(batch, self.bags)}
        if self.auxiliary:  # in evaluation they are looked up where the batch has them, and not used
            has = self.training or self.negatives in batch.slots
            keys["negatives"] = matrix(batch, self.negatives) if has else batch.ids[:0]
        return keys

    def forward(self, batch: BatchLike) -> Outputs:
        check_widths(batch, self.num_dense, self.num_slots)
        keys = self.keys(batch)
        rows = self.rows(keys)
        fields = fields_of(rows, self.bags)
        is_taught = self.training and self.auxiliary > 0
        # The GRU begins with the first item: padding in front of it would move its state.
        mask, history, *negatives = to_front(
            held(keys["history"], fields.device), rows["history"], *([rows["negatives"]] if is_taught else [])
        )
        target = fields[:, self.item]
        states, _ = self.interests(history)
        final = self.evolution(states, self.attention(states, target, mask))
        dense = batch.dense.to(fields.device)
        logits: torch.Tensor = self.layers(torch.cat([dense, fields.flatten(1), final, final * target], dim=1))
        beside = torch.zeros_like(logits)
        if is_taught:
            beside = next_item_loss(states, history, negatives[0], mask).unsqueeze(1)
        return torch.cat([logits, beside], dim=1)

    def loss(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        beside = outputs[:, 1] if batch.weight is None else outputs[:, 1] * batch.weight.to(outputs)
        return super().loss(outputs[:, 0], batch) + self.auxiliary * beside.mean()

    def scores(self, outputs: Outputs) -> torch.Tensor:
        return super().scores(outputs[:, 0])


def next_item_loss(
    states: torch.Tensor, history: torch.Tensor, negatives: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """[B]: how badly each state tells the item that follows it from a negative, a mean over the sample's places."""
    known = (mask[:, 1:] & mask[:, :-1]).float()
    right = (states[:, :-1] * history[:, 1:]).sum(2)
    wrong = (states[:, :-1] * negatives[:, 1:]).sum(2)
    losses = functional.softplus(-right) + functional.softplus(wrong)
    return (losses * known).sum(1) / known.sum(1).clamp(min=1)
