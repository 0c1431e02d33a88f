"""Functions that make fewer numbers of many: sums and means, spreads, the largest and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.variable import Variable

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "cumsum",
    "sort",
    "topk",
]

Axis = int | Sequence[int] | None


def cumsum(x: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Variable:  # noqa: ARG001
    """Sums of all up to each place."""
    given = x if dtype is None else layers.cast(x, dtype)
    return layers.cumsum(given if axis is not None else layers.reshape(given, [-1]), axis)


def argmax(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,  # noqa: ARG001
) -> Variable:
    """The place of the largest along a dimension, or among all."""
    return _place(layers.argmax, x, axis, keepdim, dtype)


def argmin(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,  # noqa: ARG001
) -> Variable:
    """The place of the smallest along a dimension, or among all."""
    return _place(layers.argmin, x, axis, keepdim, dtype)


def topk(
    x: Variable, k: int, axis: int | None = None, largest: bool = True, sorted: bool = True, name: str | None = None
) -> tuple[Variable, Variable]:
    """The k largest along the last dimension and their places."""
    if axis not in (None, -1, x.ndim - 1) or not largest:
        raise NotSupportedError("topk: axis must be the last and largest must be True for a variable; transpose it")
    del sorted  # they always are
    return layers.topk(x, k, name)


def sort(x: Variable, axis: int = -1, descending: bool = False, name: str | None = None) -> Variable:
    """The elements in order along a dimension."""
    return layers.argsort(x, axis, descending, name)[0]


def argsort(x: Variable, axis: int = -1, descending: bool = False, name: str | None = None) -> Variable:
    """Where each of the elements in order was."""
    return layers.argsort(x, axis, descending, name)[1]


def _place(found_by: Any, x: Variable, axis: int | None, keepdim: bool, dtype: Any) -> Variable:
    place: Variable = found_by(layers.reshape(x, [-1]) if axis is None else x, 0 if axis is None else axis)
    if keepdim:
        if axis is None:
            raise NotSupportedError("argmax: keepdim without axis is not built for a variable; reshape the result")
        place = layers.unsqueeze(place, [axis % x.ndim])
    return place if dtype == "int64" else layers.cast(place, dtype)
