"""Functions of variables with the names and arguments that version 2.0 gives functions of tensors.

They are layers of `fleet.static.layers` under other names: `sum(x, axis)` is `reduce_sum(x, dim)`.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.layers.arithmetic import combine
from fleet.static.variable import Variable

Axis = int | Sequence[int] | None

abs = layers.abs
cast = layers.cast
ceil = layers.ceil
cos = layers.cos
create_parameter = layers.create_parameter
equal = layers.equal
exp = layers.exp
floor = layers.floor
greater_equal = layers.greater_equal
greater_than = layers.greater_than
isfinite = layers.isfinite
less_equal = layers.less_equal
less_than = layers.less_than
log = layers.log
logical_and = layers.logical_and
logical_not = layers.logical_not
logical_or = layers.logical_or
logical_xor = layers.logical_xor
matmul = layers.matmul
maximum = layers.elementwise_max
minimum = layers.elementwise_min
not_equal = layers.not_equal
reciprocal = layers.reciprocal
reshape = layers.reshape
round = layers.round
rsqrt = layers.rsqrt
scale = layers.scale
shape = layers.shape
sign = layers.sign
sin = layers.sin
sqrt = layers.sqrt
square = layers.square
tanh = layers.tanh
transpose = layers.transpose
zeros_like = layers.zeros_like
ones_like = layers.ones_like


def add(x: Variable, y: Any, name: str | None = None) -> Variable:  # noqa: ARG001 - results have names of their own
    """x + y"""
    return combine(x, y, "elementwise_add")


def subtract(x: Variable, y: Any, name: str | None = None) -> Variable:  # noqa: ARG001
    """x - y"""
    return combine(x, y, "elementwise_sub")


def multiply(x: Variable, y: Any, name: str | None = None) -> Variable:  # noqa: ARG001
    """x * y"""
    return combine(x, y, "elementwise_mul")


def divide(x: Variable, y: Any, name: str | None = None) -> Variable:  # noqa: ARG001
    """x / y"""
    return combine(x, y, "elementwise_div")


def pow(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x to the power of y, a number or a variable."""
    return layers.elementwise_pow(x, y, name=name) if isinstance(y, Variable) else layers.pow(x, y, name)


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


def argmax(x: Variable, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64") -> Variable:
    """The place of the largest along a dimension, or among all."""
    return _place(layers.argmax, x, axis, keepdim, dtype)


def argmin(x: Variable, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64") -> Variable:
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


def cumsum(x: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Variable:  # noqa: ARG001
    """Sums of all up to each place."""
    given = x if dtype is None else layers.cast(x, dtype)
    return layers.cumsum(given if axis is not None else layers.reshape(given, [-1]), axis)


def concat(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Variables one after the other along a dimension."""
    return layers.concat(x, axis, name)


def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:  # noqa: ARG001
    """Variables side by side along a new dimension."""
    return layers.stack(x, axis)


def split(x: Variable, num_or_sections: int | Sequence[int], axis: int = 0, name: str | None = None) -> list[Variable]:
    """As many equal parts, or parts of these sizes."""
    return layers.split(x, num_or_sections, axis, name)


def flatten(x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Variable:
    """The dimensions from one to another as one."""
    first, last = start_axis % x.ndim, stop_axis % x.ndim
    sizes = [0] * first + [-1] + list(x.shape[last + 1 :])
    if builtins.any(size < 0 for size in sizes[first + 1 :]):
        raise NotSupportedError(
            f"flatten: the sizes after dimension {last} must be known for a variable, got {list(x.shape)}"
        )
    return layers.reshape(x, sizes, name=name)


def squeeze(x: Variable, axis: Axis = None, name: str | None = None) -> Variable:
    """Without dimensions of size 1: all, or those given."""
    axes = [axis] if isinstance(axis, int) else list(axis or ())
    return layers.squeeze(x, axes, name)


def unsqueeze(x: Variable, axis: int | Sequence[int], name: str | None = None) -> Variable:
    """With new dimensions of size 1."""
    return layers.unsqueeze(x, axis, name)


def gather(x: Variable, index: Variable, axis: int = 0, name: str | None = None) -> Variable:  # noqa: ARG001
    """The rows whose places `index` has."""
    if axis != 0:
        raise NotSupportedError(f"gather: axis must be 0 for a variable, got {axis}; transpose it first")
    return layers.gather(x, index)


def tile(x: Variable, repeat_times: Sequence[int], name: str | None = None) -> Variable:
    """As many copies along each dimension."""
    return layers.expand(x, repeat_times, name)


def clip(x: Variable, min: float | None = None, max: float | None = None, name: str | None = None) -> Variable:
    """Every element between `min` and `max`."""
    low, high = float("-inf") if min is None else min, float("inf") if max is None else max
    return layers.clip(x, low, high, name)


def zeros(shape: Sequence[int], dtype: Any = None, name: str | None = None) -> Variable:  # noqa: ARG001
    """Zeros."""
    return layers.zeros(shape, dtype or "float32")


def ones(shape: Sequence[int], dtype: Any = None, name: str | None = None) -> Variable:  # noqa: ARG001
    """Ones."""
    return layers.ones(shape, dtype or "float32")


def full(shape: Sequence[int], fill_value: float, dtype: Any = None, name: str | None = None) -> Variable:  # noqa: ARG001
    """One value everywhere."""
    return layers.fill_constant(shape, dtype or "float32", fill_value)


def _place(found_by: Any, x: Variable, axis: int | None, keepdim: bool, dtype: Any) -> Variable:
    place: Variable = found_by(layers.reshape(x, [-1]) if axis is None else x, 0 if axis is None else axis)
    if keepdim:
        if axis is None:
            raise NotSupportedError("argmax: keepdim without axis is not built for a variable; reshape the result")
        place = layers.unsqueeze(place, [axis % x.ndim])
    return place if dtype == "int64" else layers.cast(place, dtype)
