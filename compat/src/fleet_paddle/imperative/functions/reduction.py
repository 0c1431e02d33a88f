"""What becomes of many elements: sums, means, the greatest; over some dimensions, or over all.

`axis` is a dimension, several, or None for all; with `keepdim` these are left with size 1.
"""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "argmax",
    "argmin",
    "cumsum",
    "median",
]

Axis = int | Sequence[int] | None


def axes_of(axis: Any) -> Any:
    """One dimension, or a tuple of them, as torch wants them; None stays."""
    if axis is None or isinstance(axis, int):
        return axis
    return tuple(int(one) for one in axis) if isinstance(axis, list | tuple) else int(axis)


def median(x: torch.Tensor, axis: int | None = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The value in the middle, or the mean of the two that are."""
    place = 0 if axis is None else axis
    ordered = torch.sort(torch.reshape(x, (-1,)) if axis is None else x, place).values
    count = ordered.size(place)
    middle = torch.narrow(ordered, place, (count - 1) // 2, 2 - count % 2)
    made = torch.mean(middle if middle.is_floating_point() else middle.float(), place, keepdim and axis is not None)
    return own(torch.reshape(made, [1] * x.dim()) if keepdim and axis is None else made)


def argmax(
    x: torch.Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """The place of the greatest value."""
    return own(torch.argmax(x, axes_of(axis), keepdim).to(dtype_of(dtype)))


def argmin(
    x: torch.Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """The place of the least value."""
    return own(torch.argmin(x, axes_of(axis), keepdim).to(dtype_of(dtype)))


def cumsum(x: torch.Tensor, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Sums of all up to each place: along a dimension, or of all in one row."""
    wanted = None if dtype is None else dtype_of(dtype)
    return own(torch.cumsum(torch.reshape(x, (-1,)) if axis is None else x, axes_of(axis) or 0, dtype=wanted))
