"""Functions that make fewer numbers of many: sums and means, spreads, the largest and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.layers.choosing import size
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "cumsum",
    "logsumexp",
    "max",
    "mean",
    "min",
    "norm",
    "numel",
    "prod",
    "sort",
    "std",
    "sum",
    "topk",
    "var",
]

Axis = int | Sequence[int] | None


def sum(x: Variable, axis: Axis = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The sum over some dimensions, or over all."""
    return layers.reduce_sum(x if dtype is None else layers.cast(x, dtype), axis, keepdim, name)


def mean(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The mean over some dimensions, or over all."""
    if axis is None and not keepdim:
        return layers.mean(x, name)
    return layers.reduce_mean(x, axis, keepdim, name)


def max(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The largest over some dimensions, or over all."""
    return layers.reduce_max(x, axis, keepdim, name)


def min(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The smallest over some dimensions, or over all."""
    return layers.reduce_min(x, axis, keepdim, name)


def prod(x: Variable, axis: Axis = None, keepdim: bool = False, dtype: Any = None, name: str | None = None) -> Variable:
    """The product over some dimensions, or over all."""
    return layers.reduce_prod(x if dtype is None else layers.cast(x, dtype), axis, keepdim, name)


def all(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Whether all are true."""
    return layers.reduce_all(x, axis, keepdim, name)


def any(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Whether one is true."""
    return layers.reduce_any(x, axis, keepdim, name)


def numel(x: Variable, name: str | None = None) -> Variable:  # noqa: ARG001
    """The number of elements in this batch."""
    return size(x)


def var(
    x: Variable, axis: Axis = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The mean squared distance from the mean; `unbiased` divides by one less than the number."""
    apart = layers.square(x - layers.reduce_mean(x, axis, True))
    if not unbiased:
        return layers.reduce_mean(apart, axis, keepdim, name)
    count = layers.reduce_sum(layers.ones_like(x), axis, keepdim)
    return layers.elementwise_div(layers.reduce_sum(apart, axis, keepdim), count - 1.0, name=name)


def std(
    x: Variable, axis: Axis = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The square root of `var`."""
    return layers.sqrt(var(x, axis, unbiased, keepdim), name)


def norm(x: Variable, p: Any = "fro", axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The length of vectors, the Frobenius norm of all by default."""
    order = 2 if p == "fro" else p
    if not isinstance(order, int | float) or order == 0:
        raise NotSupportedError(f"norm: p must be 'fro', inf, -inf or a number other than 0, got {p!r}")
    dims = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    attrs = {"porder": float(order), "dim": dims, "keep_dim": bool(keepdim), "reduce_all": axis is None}
    return Layer("norm", name).apply("p_norm", {"X": x}, attrs, x.dtype)


def logsumexp(x: Variable, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The logarithm of the sum of exp(x), where no exp overflows."""
    most = layers.reduce_max(x, axis, True)
    most.stop_gradient = True
    total = layers.log(layers.reduce_sum(layers.exp(x - most), axis, True)) + most
    if keepdim:
        return total
    gone = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    left = [one for one in range(x.ndim) if one not in {place % x.ndim for place in gone}]
    return layers.squeeze(total, [one for one in range(x.ndim) if one not in left], name) if left else total[_first(x)]


def _first(x: Variable) -> tuple[int, ...]:
    return (0,) * x.ndim


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
