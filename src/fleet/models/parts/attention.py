"""Attention over the items of a history, which several models share. What is padding gets no weight."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fleet.models.parts.layers import mlp


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
