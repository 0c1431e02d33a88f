"""Rows of functions about order: the greatest few and where they are, the distinct ones, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.variable import Variable
from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.rows.function import function

_PLACE = "axis=None, keepdim=False, dtype='int64', name"


def _place(found_by: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def place(x: torch.Tensor, axis: Any, keepdim: bool, dtype: Any) -> torch.Tensor:
        return found_by(x, None if axis is None else int(axis), keepdim).to(dtype_of(dtype))

    return place


def _place_of(found_by: Callable[..., Variable]) -> Callable[..., Variable]:
    def place(x: Variable, axis: int | None, keepdim: bool, dtype: Any, name: str | None) -> Variable:
        found = found_by(layers.reshape(x, [-1]) if axis is None else x, axis or 0)
        if keepdim:
            if axis is None:
                raise NotSupportedError("argmax: keepdim without axis is not built for a variable; reshape the result")
            found = layers.unsqueeze(found, [axis % x.ndim])
        return found if dtype == "int64" else layers.cast(found, dtype)

    return place


def _topk(x: torch.Tensor, k: Any, axis: int | None, largest: bool, is_sorted: bool) -> Any:
    return tuple(torch.topk(x, int(k), -1 if axis is None else axis, largest, is_sorted))


def _topk_of(x: Variable, k: int, axis: int | None, largest: bool, is_sorted: bool, name: str | None) -> Any:
    del is_sorted  # they always are
    if axis not in (None, -1, x.ndim - 1) or not largest:
        raise NotSupportedError("topk: axis must be the last and largest must be True for a variable; transpose it")
    return layers.topk(x, k, name)


def _cumsum(x: torch.Tensor, axis: Any, dtype: Any) -> torch.Tensor:
    wanted = None if dtype is None else dtype_of(dtype)
    return torch.cumsum(torch.reshape(x, (-1,)) if axis is None else x, 0 if axis is None else int(axis), dtype=wanted)


def _cumsum_of(x: Variable, axis: int | None, dtype: Any, name: str | None) -> Variable:
    given = x if dtype is None else layers.cast(x, dtype)
    return layers.cumsum(given if axis is not None else layers.reshape(given, [-1]), axis)


def _median(x: torch.Tensor, axis: int | None, keepdim: bool) -> torch.Tensor:
    place = 0 if axis is None else axis
    ordered = torch.sort(torch.reshape(x, (-1,)) if axis is None else x, place).values
    count = ordered.size(place)
    middle = torch.narrow(ordered, place, (count - 1) // 2, 2 - count % 2)
    made = torch.mean(middle if middle.is_floating_point() else middle.float(), place, keepdim and axis is not None)
    return torch.reshape(made, [1] * x.dim()) if keepdim and axis is None else made


def _unique(x: torch.Tensor, index: bool, inverse: bool, counts: bool, axis: int | None, dtype: Any) -> Any:
    values, which, numbers = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=axis)
    which = which.reshape(-1)
    asked = []
    if index:
        places = torch.arange(len(which), device=x.device)
        asked.append(places.new_full((len(numbers),), len(which)).scatter_reduce(0, which, places, "amin"))
    asked += ([which] if inverse else []) + ([numbers] if counts else [])
    return (values, *(one.to(dtype_of(dtype)) for one in asked)) if asked else values


def _histogram(values: torch.Tensor, bins: int, least: float, most: float) -> torch.Tensor:
    return torch.histc(values if values.is_floating_point() else values.double(), bins, least, most).long()


FUNCTIONS = [
    function(
        f"argmax(x, {_PLACE})", "The place of the greatest value.", _place(torch.argmax), _place_of(layers.argmax)
    ),
    function(f"argmin(x, {_PLACE})", "The place of the least value.", _place(torch.argmin), _place_of(layers.argmin)),
    function(
        "topk(x, k, axis=None, largest=True, sorted=True, name)",
        "The `k` greatest values along a dimension, the last unless given, and their places.",
        _topk,
        _topk_of,
        gives="Any",
    ),
    function(
        "cumsum(x, axis=None, dtype=None, name)",
        "Sums of all up to each place: along a dimension, or of all in one row.",
        _cumsum,
        _cumsum_of,
    ),
    function(
        "median(x, axis=None, keepdim=False, name)",
        "The value in the middle, or the mean of the two that are.",
        _median,
        None,
    ),
    function(
        "unique(x, return_index=False, return_inverse=False, return_counts=False, axis=None, dtype='int64', name)",
        "The distinct values in order; if asked for, where each is first, which each element is, how many of each.",
        _unique,
        None,
        gives="Any",
    ),
    function(
        "histogram(input, bins=100, min=0.0, max=0.0, name)",
        "How many values lie in each of `bins` equal parts of [min, max], or of the values' own range if both are 0.",
        _histogram,
        None,
    ),
]
