"""Layers that several models share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn


def mlp(width: int, hidden: Sequence[int], out: int | None = None, *, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with ReLU (and dropout) behind each of `hidden`; then, if `out` is given, a last one without."""
    parts: list[nn.Module] = []
    for before, after in pairwise([width, *hidden]):
        parts += [nn.Linear(before, after), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    if out is not None:
        parts.append(nn.Linear([width, *hidden][-1], out))
    return nn.Sequential(*parts)
