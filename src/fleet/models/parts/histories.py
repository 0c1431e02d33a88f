"""Histories: slots of a batch that are matrices [B, L] of item ids, oldest first, filled up with 0 at either end.

And attention over their items; what is padding gets no weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from fleet.errors import UsageError
from fleet.models.parts.base import BatchLike
from fleet.models.parts.layers import mlp
from fleet.nn import EmbeddingCollection, Slot
from fleet.nn.sparse import DEFAULT_INITIALIZER
from fleet.ps.job.named_spec import InitializerSpec, RuleSpec

PADDING = 0
"""The id that stands for no item: it has no row, reads as zeros, and attention passes over it."""


def one_table(
    dim: int,
    plain: Sequence[str],
    padded: Sequence[str],
    rule: RuleSpec | None,
    initializer: InitializerSpec = DEFAULT_INITIALIZER,
    bags: Sequence[str] = (),
) -> EmbeddingCollection:
    """Rows of all these slots in one table, looked up in one pull; in `padded` and `bags` 0 is padding.

    Slots of `bags` are pooled: the mean of their rows.
    """
    slots = [Slot(name, dim, "rows", rule=rule, initializer=initializer) for name in plain]
    slots += [Slot(name, dim, "rows", rule=rule, initializer=initializer, padding_idx=PADDING) for name in padded]
    slots += [
        Slot(name, dim, "rows", "mean", rule, initializer, padding_idx=PADDING, include_last_offset=True)
        for name in bags
    ]
    return EmbeddingCollection(slots)


def fields_of(rows: Mapping[str, torch.Tensor], bags: Sequence[str]) -> torch.Tensor:
    """[B, slots + bags, dim]: the row of each of the ids, then that of each bag."""
    return torch.cat([rows["ids"], *(rows[name].unsqueeze(1) for name in bags)], dim=1)


def matrix(batch: BatchLike, slot: str) -> torch.Tensor:
    """The ids of a slot [B, L]; one line if the batch has none, or bags of any length."""
    found = batch.slots.get(slot)
    if found is None:
        raise UsageError(
            f"the batch has no slot {slot!r}; it has {', '.join(map(repr, batch.slots)) or 'none'}. Declare one: "
            f'fleet.data.Category({slot!r}, slot="item", separator=",", length=50)'
        )
    if not isinstance(found, torch.Tensor) or found.dim() != 2:
        raise UsageError(f"slot {slot!r} must be a matrix of ids; give its fleet.data.Category a length")
    return found


def held(history: torch.Tensor, device: torch.device) -> torch.Tensor:
    """bool [B, L]: where there is an item."""
    return (history != PADDING).to(device)


def to_front(mask: torch.Tensor, *histories: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The mask and histories [B, L, dim] with the items first, in their order, and all padding behind them."""
    order = torch.argsort((~mask).to(torch.uint8), dim=1, stable=True)
    moved = (one.gather(1, order.unsqueeze(2).expand_as(one)) for one in histories)
    return mask.gather(1, order), *moved


def last_place(mask: torch.Tensor) -> torch.Tensor:
    """int64 [B]: where the newest item is; 0 of a history without any."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return (places * mask).amax(dim=1)


def at_place(states: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """[B, dim] of [B, L, dim]: the state of each sample at its place."""
    return states[torch.arange(len(states), device=states.device), place]


class TargetAttention(nn.Module):
    """How much each item of a history matters for a target: a small network sees both, their difference and product.

    Weights are as they come (DIN: how strong an interest is may be seen in their sum), or with `softmax` add up to one.
    """

    def __init__(self, dim: int, hidden: Sequence[int] = (36,), softmax: bool = False) -> None:
        super().__init__()
        self.softmax = softmax
        self.score = mlp(4 * dim, hidden, 1)

    def forward(self, history: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Weights [B, L] of `history` [B, L, dim] for `target` [B, dim]; `mask` says where there is an item."""
        targets = target.unsqueeze(1).expand_as(history)
        seen = torch.cat([history, targets, history - targets, history * targets], dim=2)
        scores: torch.Tensor = self.score(seen).squeeze(2)
        if self.softmax:
            return masked_softmax(scores, mask)
        return scores.masked_fill(~mask, 0.0)


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension where `mask` is set; zeros where it is set nowhere."""
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def weighted_sum(weights: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
    """[B, dim]: the rows of a history, each times its weight."""
    return torch.bmm(weights.unsqueeze(1), history).squeeze(1)


def causal(mask: torch.Tensor) -> torch.Tensor:
    """bool [B, L, L]: each place sees the items before it and itself."""
    length = mask.shape[1]
    before = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
    itself = torch.eye(length, dtype=torch.bool, device=mask.device)
    return (mask.unsqueeze(1) & before) | itself
