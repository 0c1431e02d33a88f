"""Two towers: users and items meet in a dot product; the other items of a batch are the negatives (Yi et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fleet.errors import UsageError
from fleet.models.parts.base import BatchLike, Outputs, Recommender
from fleet.models.parts.histories import held, matrix, one_table, weighted_sum
from fleet.models.parts.layers import mlp
from fleet.ps.job.named_spec import RuleSpec


class TwoTower(Recommender):
    """Columns `user` of a batch's ids, and the mean of slot `history` if named, against columns `item`.

    `forward` gives [B, B]: how well each user of the batch goes with each item of it. An item that stands several times
    in a batch is no negative of its own user. Popular items are negatives more often than they should be; `log_q` names
    the column of `dense` with the logarithm of each item's share of the data, and is taken off. The first of `item` is
    the item's id.
    """

    def __init__(
        self,
        user: Sequence[int],
        item: Sequence[int],
        history: str | None = None,
        log_q: int | None = None,
        dim: int = 32,
        hidden: Sequence[int] = (),
        out: int | None = None,
        temperature: float = 0.1,
        normalize: bool = True,
        dropout: float = 0.0,
        rule: RuleSpec | None = None,
    ) -> None:
        super().__init__()
        if (not user and history is None) or not item:
            raise UsageError("a two-tower model needs columns of both user and item")
        if temperature <= 0:
            raise UsageError(f"temperature must be above 0, got {temperature}")
        self.user, self.item, self.history, self.log_q = list(user), list(item), history, log_q
        self.temperature, self.normalize = temperature, normalize
        self.rows = one_table(dim, ["ids"], [] if history is None else ["history"], rule)
        self.dropout = nn.Dropout(dropout)
        wide = (len(self.user) + (history is not None)) * dim
        self.user_layers = mlp(wide, hidden, out or dim, dropout=dropout)
        self.item_layers = mlp(len(self.item) * dim, hidden, out or dim, dropout=dropout)

    def keys(self, batch: BatchLike) -> Any:
        if self.history is None:
            return {"ids": batch.ids}
        return {"ids": batch.ids, "history": matrix(batch, self.history)}

    def forward(self, batch: BatchLike) -> Outputs:
        users, items = self.vectors(batch)
        logits = users @ items.T / self.temperature
        if self.log_q is not None and self.training:
            logits = logits - batch.dense[:, self.log_q].to(logits.device)
        ids = batch.ids[:, self.item[0]]
        twice = (ids.unsqueeze(0) == ids.unsqueeze(1)).fill_diagonal_(False).to(logits.device)
        return logits.masked_fill(twice, torch.finfo(logits.dtype).min)

    def vectors(self, batch: BatchLike) -> tuple[torch.Tensor, torch.Tensor]:
        """Users and items of a batch, [B, out] each: for an index of neighbours, and for evaluation over all items."""
        keys = self.keys(batch)
        rows = self.rows(keys)
        fields = self.dropout(rows["ids"])
        parts = [fields[:, self.user].flatten(1)]
        if self.history is not None:
            mask = held(keys["history"], fields.device).to(fields.dtype)
            parts.append(weighted_sum(mask / mask.sum(1, keepdim=True).clamp(min=1), rows["history"]))
        users = self.user_layers(torch.cat(parts, dim=1))
        items = self.item_layers(fields[:, self.item].flatten(1))
        if self.normalize:
            users, items = functional.normalize(users, dim=1), functional.normalize(items, dim=1)
        return users, items

    def loss(self, outputs: Outputs, batch: BatchLike) -> torch.Tensor:
        """Softmax over the items of the batch, each user's own being right; a sample's weight scales its part."""
        right = torch.arange(len(outputs), device=outputs.device)
        losses = functional.cross_entropy(outputs, right, reduction="none")
        return (losses if batch.weight is None else losses * batch.weight.to(losses.device)).mean()

    def scores(self, outputs: Outputs) -> torch.Tensor:
        return outputs.diagonal()
