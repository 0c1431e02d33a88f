"""Rows of functions about order: the greatest few and where they are, the distinct ones, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet_paddle.imperative.state import dtype_of
from fleet_paddle.programs.ops.values.ordering import distinct
from fleet_paddle.programs.variables.computed import add
from fleet_paddle.rows.function import function
from fleet_programs import layers
from fleet_programs.definition.dtypes import canonical
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

_PLACE = "axis=None, keepdim=False, dtype='int64', name"


def _place(found_by: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def place(x: torch.Tensor, axis: Any, keepdim: bool, dtype: Any) -> torch.Tensor:
        return found_by(x, None if axis is None else int(axis), keepdim).to(dtype_of(dtype))

    return place


def _place_of(found_by: Callable[..., Variable]) -> Callable[..., Variable]:
    def place(x: Variable, axis: int | None, keepdim: bool, dtype: Any, name: str | None) -> Variable:
        found = found_by(layers.reshape(x, [-1]) if axis is None else x, axis or 0)
        if keepdim and axis is None:
            found = layers.reshape(found, [1] * x.ndim)
        elif keepdim:
            found = layers.unsqueeze(found, [(axis or 0) % x.ndim])
        return found if dtype == "int64" else layers.cast(found, dtype)

    return place


def _topk(x: torch.Tensor, k: Any, axis: int | None, largest: bool, is_sorted: bool) -> Any:
    return tuple(torch.topk(x, int(k), -1 if axis is None else axis, largest, is_sorted))


def _topk_of(x: Variable, k: Any, axis: int | None, largest: bool, is_sorted: bool, name: str | None) -> Any:
    if axis not in (None, -1, x.ndim - 1) or not largest or isinstance(k, Variable):
        number = k if isinstance(k, Variable) else None
        how = {"axis": -1 if axis is None else axis, "largest": bool(largest), "sorted": bool(is_sorted)}
        attrs = {"k": None if number is not None else int(k), **how}
        return add("top_k_v2", {"X": x, "K": number}, attrs, name)
    return layers.topk(x, k, name)  # which are always sorted


def _cumsum(x: torch.Tensor, axis: Any, dtype: Any) -> torch.Tensor:
    wanted = None if dtype is None else dtype_of(dtype)
    return torch.cumsum(torch.reshape(x, (-1,)) if axis is None else x, 0 if axis is None else int(axis), dtype=wanted)


def _cumsum_of(x: Variable, axis: int | None, dtype: Any, name: str | None) -> Variable:
    given = x if dtype is None else layers.cast(x, dtype)
    return layers.cumsum(given if axis is not None else layers.reshape(given, [-1]), axis)


def _unique(x: torch.Tensor, index: bool, inverse: bool, counts: bool, axis: int | None, dtype: Any) -> Any:
    return distinct(x, index, inverse, counts, axis, dtype_of(dtype))


def _unique_of(
    x: Variable, index: bool, inverse: bool, counts: bool, axis: int | None, dtype: Any, name: str | None
) -> Any:
    layer, kind = LayerBuilder("unique", name), canonical(dtype)
    asked = {"Indices": index, "Index": inverse, "Counts": counts}
    outputs = {"Out": layer.temporary(layer.variable(x, "x").dtype, stop_gradient=True)}
    outputs |= {slot: layer.temporary(kind, stop_gradient=True) for slot, wanted in asked.items() if wanted}
    layer.op("unique", {"X": x}, outputs, {"dtype": kind, **({} if axis is None else {"axis": axis})})
    return tuple(outputs.values()) if len(outputs) > 1 else outputs["Out"]


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
        "unique(x, return_index=False, return_inverse=False, return_counts=False, axis=None, dtype='int64', name)",
        "The distinct values in order; if asked for, where each is first, which each element is, how many of each.",
        _unique,
        _unique_of,
        gives="Any",
    ),
]
