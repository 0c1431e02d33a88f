"""SASRec: the next item of a sequence by self-attention over the items before it (Kang and McAuley, 2018)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from fleet.errors import UsageError
from fleet.models.parts.base import BatchLike
from fleet.models.parts.histories import causal
from fleet.models.parts.next_item import NextItem
from fleet.ps.job.named_spec import RuleSpec


class SASRecBlock(nn.Module):
    """Self-attention and two layers, each added to what came in, behind a norm of it."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.queries, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.layers = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Take x [B, L, dim] one layer further; `seen` [B, L, L] says which places each may look at."""
        size, length, dim = x.shape
        split = self.queries(self.before(x)).view(size, length, 3, self.heads, dim // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # [B, heads, L, dim of a head]
        found = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=seen.unsqueeze(1), dropout_p=self.dropout if self.training else 0.0
        )
        x = x + self.drop(self.out(found.transpose(1, 2).reshape(size, length, dim)))
        out: torch.Tensor = x + self.drop(self.layers(self.between(x)))
        return out


class SASRec(NextItem):
    """`layers` blocks of causal self-attention over at most `length` items; see NextItem for what a batch has."""

    def __init__(
        self,
        item: int = 0,
        history: str = "history",
        length: int = 50,
        items: torch.Tensor | None = None,
        negatives: str = "negatives",
        objective: str = "softmax",
        every_place: bool = True,
        dim: int = 64,
        layers: int = 2,
        heads: int = 2,
        dropout: float = 0.2,
        rule: RuleSpec | None = None,
    ) -> None:
        super().__init__(dim, item, history, negatives, items, objective, every_place, rule)
        if dim % heads:
            raise UsageError(f"dim must be a multiple of heads, got dim={dim} and heads={heads}")
        self.length = length
        self.places = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.drop = nn.Dropout(dropout)
        self.first = nn.LayerNorm(dim)
        self.blocks = nn.ModuleList([SASRecBlock(dim, heads, dropout) for _ in range(layers)])
        self.final = nn.LayerNorm(dim)

    def encode(self, rows: torch.Tensor, mask: torch.Tensor, batch: BatchLike) -> torch.Tensor:  # noqa: ARG002
        place = mask.cumsum(1) - 1  # of an item among those of its history, wherever the padding is
        if rows.shape[1] > self.length:
            raise UsageError(f"histories have {rows.shape[1]} places, and the model length={self.length}")
        x = self.drop(self.first(rows + self.places[place.clamp(min=0)]))
        seen = causal(mask)
        for block in self.blocks:
            x = block(x, seen)
        states: torch.Tensor = self.final(x)
        return states
