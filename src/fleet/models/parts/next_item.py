"""What models of the next item share: where their items come from, their losses, and scores over many items."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fleet.errors import UsageError
from fleet.models.parts.base import BatchLike, Outputs, Recommender
from fleet.models.parts.histories import PADDING, at_place, held, last_place, matrix, one_table
from fleet.ps.job.initializers import Normal
from fleet.ps.job.named_spec import RuleSpec


class NextItem(Recommender):
    """Slot `history` [B, L] and behind it column `item` of the ids are a sequence; each place predicts what follows it.

    With `items`, int64 [N], the loss is a softmax over all of them. Without, slot `negatives` [B, n] has items to tell
    the right one from: by `objective` "softmax" over the 1 + n, or "bce", a yes or no for each. `every_place=False`
    trains the newest place only: for data with one sample for each prefix of a sequence.

    `forward` gives logits [B, L, N] or [B, L, 1 + n], the right item first. The loss is a mean over samples and places
    in which padding counts as 0, so that two workers with half a batch each do what one does with the whole.
    """

    def __init__(
        self,
        dim: int,
        item: int,
        history: str,
        negatives: str,
        items: torch.Tensor | None,
        objective: str,
        every_place: bool,
        rule: RuleSpec | None,
    ) -> None:
        super().__init__()
        if objective not in ("softmax", "bce") or (items is not None and objective == "bce"):
            raise UsageError(f'objective must be "softmax", or without items "bce", got {objective!r}')
        self.item, self.history, self.negatives = item, history, negatives
        self.objective, self.every_place = objective, every_place
        self.items = None if items is None else torch.unique(items)
        beside = (["items"], []) if items is not None else (["ids"], ["negatives"])
        self.rows = one_table(dim, beside[0], ["history", *beside[1]], rule, Normal(0.0, 0.02))

    def encode(self, rows: torch.Tensor, mask: torch.Tensor, batch: BatchLike) -> torch.Tensor:
        """States [B, L, dim] of a history's rows [B, L, dim]; `mask` says where there is an item."""
        raise NotImplementedError

    def keys(self, batch: BatchLike) -> Any:
        history = matrix(batch, self.history)
        if self.items is not None:
            return {"items": self.items, "history": history}
        return {"ids": batch.ids, "history": history, "negatives": matrix(batch, self.negatives)}

    def forward(self, batch: BatchLike) -> Outputs:
        keys = self.keys(batch)
        rows = self.rows(keys)
        mask = held(keys["history"], rows["history"].device)
        states = self.encode(rows["history"], mask, batch)
        if not self.every_place:
            states = at_place(states, last_place(mask)).unsqueeze(1)
        if self.items is not None:
            logits: torch.Tensor = states @ rows["items"].T
            return logits
        right = self._following(rows["history"], rows["ids"][:, self.item], mask)
        wrong = torch.einsum("bld,bnd->bln", states, rows["negatives"])
        return torch.cat([(states * right).sum(2, keepdim=True), wrong], dim=2)

    def _following(self, history: torch.Tensor, last: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """What follows each place of ids [B, L] or rows [B, L, dim]; `last` follows the newest."""
        if not self.every_place:
            return last.unsqueeze(1)
        following = history.roll(-1, dims=1)
        following[torch.arange(len(history), device=history.device), last_place(mask)] = last
        return following

    def loss(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        history = matrix(batch, self.history)
        mask = held(history, outputs.device)
        if self.objective == "bce":
            signs = -torch.ones_like(outputs)
            signs[..., 0] = 1.0
            losses = functional.softplus(-signs * outputs).sum(2)
        else:
            losses = functional.cross_entropy(
                outputs.flatten(0, 1), self._right(history, batch, outputs), reduction="none"
            )
        trained = mask if self.every_place else mask.any(1, keepdim=True)
        losses = losses.view(trained.shape) * trained
        if batch.weight is not None:
            losses = losses * batch.weight.to(losses.device).unsqueeze(1)
        return losses.mean()

    def _right(self, history: torch.Tensor, batch: BatchLike, outputs: torch.Tensor) -> torch.Tensor:
        """The number of the right logit at each place, in one row."""
        if self.items is None:
            return torch.zeros(outputs.shape[:2], dtype=torch.int64, device=outputs.device).flatten()
        wanted = self._following(history, batch.ids[:, self.item], history != PADDING).flatten().contiguous()
        found = torch.searchsorted(self.items, wanted).clamp(max=len(self.items) - 1)
        unknown = (self.items[found] != wanted) & (wanted != PADDING)
        if bool(unknown.any()):
            raise UsageError(f"the data has item {int(wanted[unknown][0])}, which is not among the items of the model")
        return found.to(outputs.device)

    def scores(self, outputs: Outputs) -> torch.Tensor:
        """With `items` all logits; without, those of the right item at each place."""
        return outputs if self.items is not None else outputs[..., 0]

    def newest(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        """[B, N] of `outputs` [B, L, N]: how likely each item comes next."""
        mask = held(matrix(batch, self.history), outputs.device)
        return at_place(outputs, last_place(mask)) if self.every_place else outputs.squeeze(1)
