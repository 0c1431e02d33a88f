"""Dice, the activation of DIN and DIEN: PReLU whose bend follows the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from fleet.errors import UsageError


class Dice(nn.Module):
    """x where it is large for the batch, alpha * x where it is small, and smoothly between; of [B, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = torch.sigmoid(self.norm(x))
        return x * (share + self.alpha * (1 - share))


def bent_mlp(width: int, hidden: Sequence[int], activation: str, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with "dice" or "prelu" behind each of `hidden`, and a last one that gives a logit."""
    if activation not in ("dice", "prelu"):
        raise UsageError(f'activation must be "dice" or "prelu", got {activation!r}')
    parts: list[nn.Module] = []
    for before, after in pairwise([width, *hidden]):
        parts += [nn.Linear(before, after), Dice(after) if activation == "dice" else nn.PReLU(after)]
        parts += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*parts, nn.Linear([width, *hidden][-1], 1))
