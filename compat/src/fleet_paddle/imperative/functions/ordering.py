"""Elements in order: sorted, the greatest few, the distinct ones, how many there are of each size."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = ["argsort", "histogram", "sort", "topk", "unique"]


def sort(x: torch.Tensor, axis: int = -1, descending: bool = False, name: str | None = None) -> Tensor:
    """The values in order along a dimension; their places are `argsort`."""
    return own(torch.sort(x, axis, descending).values)


def argsort(x: torch.Tensor, axis: int = -1, descending: bool = False, name: str | None = None) -> Tensor:
    """The places of the values in order along a dimension."""
    return own(torch.argsort(x, axis, descending))


def topk(
    x: torch.Tensor,
    k: Any,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` greatest values along a dimension, the last unless given, and their places."""
    values, places = torch.topk(x, int(k), -1 if axis is None else axis, largest, sorted)
    return own(values), own(places)


def unique(
    x: torch.Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The distinct values in order, of all or along a dimension.

    And, if asked for: where each stands first, which of them each element is, and how many there are of each.
    """
    values, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=axis)
    inverse = inverse.reshape(-1)
    made = [own(values)]
    if return_index:
        places = torch.arange(len(inverse), device=x.device)
        made.append(own(places.new_full((len(counts),), len(inverse)).scatter_reduce(0, inverse, places, "amin")))
    made += [own(inverse)] if return_inverse else []
    made += [own(counts)] if return_counts else []
    if len(made) == 1:
        return made[0]
    return (made[0], *(one.to(dtype_of(dtype)) for one in made[1:]))


def histogram(input: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0, name: str | None = None) -> Tensor:
    """How many values lie in each of `bins` equal parts of [min, max], or of the values' own range if both are 0."""
    values = input if input.is_floating_point() else input.double()
    return own(torch.histc(values, bins, min, max).long())
