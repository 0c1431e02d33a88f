"""`core.ops`: operators that libraries call on tensors past the layers; settings are pairs of a name and a value."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.fluid import layers
from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.tensor import Tensor, as_paddle

__all__ = ["scatter", "segment_pool", "unique_with_counts"]

_REDUCTIONS = {"SUM": "sum", "MEAN": "mean", "MAX": "amax", "MIN": "amin"}


def segment_pool(x: Tensor, segment_ids: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    """Rows of one number made one, by 'pooltype' SUM, MEAN, MAX or MIN, and how many there were; 0 where none was."""
    kind = _read(settings).get("pooltype", "SUM")
    if kind not in _REDUCTIONS:
        raise UsageError(f"segment_pool: pooltype must be SUM, MEAN, MAX or MIN, got {kind!r}")
    places = segment_ids.long()
    count = int(places[-1].item()) + 1 if places.numel() else 0
    return reduced(x, places, count, kind), as_paddle(torch.bincount(places, minlength=count))


def reduced(x: torch.Tensor, places: torch.Tensor, count: int, kind: str) -> Tensor:
    """Of `count` rows, each made of the rows of `x` that have its place: their SUM, MEAN, MAX or MIN, else 0."""
    zeros = torch.zeros((count, *x.shape[1:]), dtype=x.dtype, device=x.device)
    wide = torch.reshape(places, (-1, *[1] * (x.dim() - 1))).expand(x.shape)
    return as_paddle(torch.scatter_reduce(zeros, 0, wide, x, _REDUCTIONS[kind], include_self=False))


def scatter(x: Tensor, index: Tensor, updates: Tensor, *settings: Any) -> Any:
    """Other rows at some places, or with 'overwrite' False their sums; see `paddle.scatter`."""
    return table.scatter(x, index, updates, bool(_read(settings).get("overwrite", True)))


def unique_with_counts(x: Tensor, *settings: Any) -> Any:
    """(the values, the place of each element among them, how often each is there)."""
    return layers.unique_with_counts(x, _read(settings).get("dtype", "int32"))


def _read(settings: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(settings[::2], settings[1::2], strict=True))
