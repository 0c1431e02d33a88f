"""HSTU: attention without softmax, gated, that knows how long ago things were (Zhai et al., 2024)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from fleet.errors import UsageError
from fleet.models.parts.base import BatchLike
from fleet.models.parts.histories import causal, matrix
from fleet.models.parts.next_item import NextItem
from fleet.ps.job.named_spec import RuleSpec

TIME_BUCKETS = 64
"""Buckets for differences in time, by their logarithm: four for every factor of e, the last for 103 days and more."""


class RelativeBias(nn.Module):
    """What is added to the attention of one place to another: by their distance, and by the time between them."""

    def __init__(self, length: int, with_times: bool) -> None:
        super().__init__()
        self.length = length
        self.by_distance = nn.Parameter(torch.randn(length) * 0.02)
        self.by_time = nn.Parameter(torch.randn(TIME_BUCKETS + 1) * 0.02) if with_times else None

    def forward(self, length: int, times: torch.Tensor | None) -> torch.Tensor:
        """[1, L, L], or with times [B, L] of each place, [B, L, L]."""
        places = torch.arange(length, device=self.by_distance.device)
        bias = self.by_distance[(places.unsqueeze(1) - places).clamp(min=0)].unsqueeze(0)
        if self.by_time is None or times is None:
            return bias
        apart = (times.unsqueeze(2) - times.unsqueeze(1)).clamp(min=0)
        bucket = (torch.log1p(apart.float()) * 4).long().clamp(max=TIME_BUCKETS)
        return bias + self.by_time[bucket]


class HSTUBlock(nn.Module):
    """One projection gives gate, value, query and key; what attention finds is normalised, gated and added."""

    def __init__(self, dim: int, heads: int, length: int, with_times: bool, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.project, self.out = nn.Linear(dim, 4 * dim), nn.Linear(dim, dim)
        self.bias = RelativeBias(length, with_times)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, seen: torch.Tensor, times: torch.Tensor | None) -> torch.Tensor:
        """Take x [B, L, dim] one layer further; `seen` [B, L, L] says which places each may look at."""
        size, length, dim = x.shape
        gate, *others = functional.silu(self.project(self.before(x))).chunk(4, dim=2)
        value, query, key = (one.view(size, length, self.heads, -1).transpose(1, 2) for one in others)
        scores = query @ key.transpose(2, 3) + self.bias(length, times).unsqueeze(1)
        weights = functional.silu(scores) / length * seen.unsqueeze(1)
        found = (weights @ value).transpose(1, 2).reshape(size, length, dim)
        out: torch.Tensor = x + self.out(self.drop(self.between(found) * gate))
        return out


class HSTU(NextItem):
    """`layers` blocks over at most `length` items; see NextItem for what a batch has.

    Slot `times`, if named, has the second of each item of the history, int64 [B, L]: a Category with `hash=False`.
    """

    def __init__(
        self,
        item: int = 0,
        history: str = "history",
        times: str | None = None,
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
        self.length, self.times = length, times
        self.places = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([HSTUBlock(dim, heads, length, times is not None, dropout) for _ in range(layers)])
        self.final = nn.LayerNorm(dim)

    def encode(self, rows: torch.Tensor, mask: torch.Tensor, batch: BatchLike) -> torch.Tensor:
        if rows.shape[1] > self.length:
            raise UsageError(f"histories have {rows.shape[1]} places, and the model length={self.length}")
        times = None if self.times is None else matrix(batch, self.times).to(rows.device)
        place = mask.cumsum(1) - 1  # of an item among those of its history, wherever the padding is
        x = self.drop(rows * rows.shape[2] ** 0.5 + self.places[place.clamp(min=0)])
        seen = causal(mask)
        for block in self.blocks:
            x = block(x, seen, times)
        states: torch.Tensor = self.final(x)
        return states
