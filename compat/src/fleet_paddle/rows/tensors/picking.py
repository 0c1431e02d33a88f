"""Rows of functions that take some of the elements, or put them into places, and are no single operator."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.programs.layers.pairing import scatter_nd
from fleet_paddle.programs.layers.table import scatter_nd_add
from fleet_paddle.rows.function import function
from fleet_paddle.rows.tensors.making import filled_like
from fleet_programs import layers
from fleet_programs.operators.common.making import integers
from fleet_programs.operators.tensors.indexing import scattered
from fleet_programs.program.variable import Variable

_PLACES = "The entries along a dimension whose places `index` has."


def _select(x: torch.Tensor, index: torch.Tensor, axis: Any) -> torch.Tensor:
    return torch.index_select(x, 0 if axis is None else int(axis), index.reshape(-1))


def _gather(x: Variable, index: Variable, axis: int | None, name: str | None) -> Variable:
    along = (axis or 0) % x.ndim
    if along == 0:
        return layers.gather(x, index)
    order = [along, *(one for one in range(x.ndim) if one != along)]
    back = [order.index(one) for one in range(x.ndim)]
    return layers.transpose(layers.gather(layers.transpose(x, order), index), back)


def _index_sample(x: Variable, index: Variable) -> Variable:
    rows = layers.cumsum(filled_like(index, 1), 0) - 1
    return layers.gather_nd(x, layers.stack([rows, index], 2))


def _nonzero(x: torch.Tensor, as_tuple: bool) -> Any:
    places = torch.nonzero(x)
    return tuple(one[:, None] for one in places.unbind(1)) if as_tuple else places


def _nonzero_of(x: Variable, as_tuple: bool) -> Any:
    places = layers.where(layers.cast(x, "bool"))
    return tuple(layers.split(places, x.ndim, 1)) if as_tuple else places


def _where(condition: torch.Tensor, x: Any, y: Any) -> Any:
    return torch.where(condition) if x is None and y is None else torch.where(condition, x, y)


def where_of(condition: Variable, x: Any, y: Any, name: str | None) -> Any:
    """`where` of variables, of which two may be numbers, or of other shapes."""
    if x is None and y is None:
        return tuple(layers.split(layers.where(condition), condition.ndim, 1))
    dtype = x.dtype if isinstance(x, Variable) else y.dtype if isinstance(y, Variable) else "float32"
    both = [one if isinstance(one, Variable) else filled_like(condition, one, dtype) for one in (x, y)]
    if len({one.shape for one in (condition, *both)}) > 1:
        nothing = filled_like(condition, 0, dtype) + filled_like(both[0], 0, dtype) + filled_like(both[1], 0, dtype)
        both = [one + nothing for one in both]
        condition = (layers.cast(condition, dtype) + nothing) > 0.5
    return layers.where(condition, both[0], both[1], name)


def _add_at(x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    return torch.index_put(x, index.long().unbind(-1), updates, accumulate=True)


def _crop(x: torch.Tensor, shape: Any, offsets: Any) -> torch.Tensor:
    begins = [0] * x.dim() if offsets is None else integers(offsets)
    wanted = tuple(x.shape) if shape is None else integers(shape)
    if len(begins) != x.dim() or len(wanted) != x.dim():
        raise UsageError(f"crop: shape and offsets must have {x.dim()} numbers, got {len(wanted)} and {len(begins)}")
    for place, (begin, size) in enumerate(zip(begins, wanted, strict=True)):
        x = torch.narrow(x, place, begin, x.size(place) - begin if size == -1 else size)
    return x


FUNCTIONS = [
    *(function(f"{name}(x, index, axis=0, name)", _PLACES, _select, _gather) for name in ("gather", "index_select")),
    function(
        "index_sample(x, index)",
        "Of each row the elements whose places the same row of `index` has.",
        lambda x, index: torch.gather(x, 1, index.long()),
        _index_sample,
    ),
    function(
        "masked_select(x, mask, name)",
        "The elements where the mask is True, in one row.",
        torch.masked_select,
        lambda x, mask, name: layers.gather_nd(x, layers.where(mask), name),
    ),
    function(
        "nonzero(x, as_tuple=False)",
        "The places of elements that are not 0, a row each; with `as_tuple` a column for each dimension.",
        _nonzero,
        _nonzero_of,
        gives="Any",
    ),
    function(
        "where(condition, x=None, y=None, name)",
        "`x` where the condition holds, else `y`; with the condition alone, the places where it holds.",
        _where,
        where_of,
        gives="Any",
    ),
    function(
        "scatter_(x, index, updates, overwrite=True, name)",
        "`scatter`, in place.",
        lambda x, index, updates, overwrite: x.copy_(scattered(x, index, updates, overwrite)),
        lambda x, index, updates, overwrite, name: layers.scatter(x, index, updates, name, overwrite),
    ),
    function(
        "scatter_nd_add(x, index, updates, name)",
        "`x` with `updates` added at places of several dimensions.",
        _add_at,
        scatter_nd_add,
    ),
    function(
        "scatter_nd(index, updates, shape, name)",
        "Zeros with `updates` added at places of several dimensions.",
        lambda index, updates, shape: _add_at(updates.new_zeros(integers(shape)), index, updates),
        scatter_nd,
    ),
    function(
        "crop(x, shape=None, offsets=None, name)",
        "A part of `x`: of that shape, -1 being what is left, from the offsets on, 0 unless given.",
        _crop,
        lambda x, shape, offsets, name: layers.crop(x, list(x.shape) if shape is None else shape, offsets, name),
    ),
]
