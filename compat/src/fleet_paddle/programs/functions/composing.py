"""Functions that are a few others together, and some that are layers of the same name."""
# ruff: noqa: ARG001  (results have names of their own)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.layers import choosing
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable
from fleet_paddle.imperative.functions.table import all as _all
from fleet_paddle.imperative.functions.table import norm
from fleet_paddle.programs.functions.making import full_like

__all__ = [
    "addmm",
    "allclose",
    "clone",
    "crop",
    "dist",
    "empty_like",
    "equal_all",
    "index_sample",
    "is_empty",
    "is_tensor",
    "isclose",
    "multiplex",
    "mv",
    "rank",
    "roll",
    "shard_index",
    "strided_slice",
    "trace",
]

is_empty = choosing.is_empty
rank = choosing.rank
shard_index = choosing.shard_index


def is_tensor(x: Any) -> bool:
    """Whether it is a variable, as of a tensor."""
    return isinstance(x, Variable)


def clone(x: Variable, name: str | None = None) -> Variable:
    """A copy, through which gradients flow."""
    return layers.assign(x)


def empty_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Zeros, where tensors have whatever was there."""
    return full_like(x, 0, dtype)


def isclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Which elements are as near as the tolerances say."""
    if equal_nan:
        raise NotSupportedError("isclose: equal_nan must be False for variables")
    return layers.abs(x - y) <= layers.abs(y) * rtol + atol


def allclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Whether all elements are as near as the tolerances say."""
    return _all(isclose(x, y, rtol, atol, equal_nan))


def equal_all(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Whether both are equal, everywhere."""
    return _all(layers.equal(x, y))


def mv(x: Variable, vec: Variable, name: str | None = None) -> Variable:
    """A matrix times a vector."""
    return layers.matmul(x, vec)


def addmm(
    input: Variable, x: Variable, y: Variable, beta: float = 1.0, alpha: float = 1.0, name: str | None = None
) -> Variable:
    """beta * input + alpha * (x times y)"""
    return layers.scale(layers.matmul(x, y), alpha) + layers.scale(input, beta)


def dist(x: Variable, y: Variable, p: float = 2) -> Variable:
    """The p-norm of the difference."""
    return norm(x - y, p)


def trace(x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Variable:
    """The sum of a matrix's diagonal."""
    if (offset, axis1, axis2) != (0, 0, 1) or x.ndim != 2 or -1 in x.shape:
        raise NotSupportedError(
            f"trace: a variable must be a matrix of known sizes, and its diagonal the main one; got {x}"
        )
    return layers.reduce_sum(layers.elementwise_mul(x, layers.eye(x.shape[0], x.shape[1], dtype=x.dtype)))


def roll(x: Variable, shifts: Any, axis: Any = None, name: str | None = None) -> Variable:
    """Elements moved along dimensions, or as one row without `axis`; what leaves at the end comes back at the front."""
    moves, axes = ([one] if isinstance(one, int) else list(one) for one in (shifts, () if axis is None else axis))
    return Layer("roll").apply("roll", {"X": x}, {"shifts": moves, "axis": axes}, x.dtype)


def index_sample(x: Variable, index: Variable) -> Variable:
    """Of each row of `x` the elements at the places that the row of `index` has."""
    rows = layers.cumsum(full_like(index, 1), 0) - 1
    return layers.gather_nd(x, layers.stack([rows, index], 2))


def multiplex(inputs: Sequence[Variable], index: Variable, name: str | None = None) -> Variable:
    """Row i of the variable that `index[i]` says."""
    return choosing.multiplex(inputs, index)


def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """The part of `x` of this shape that begins at `offsets`; -1 takes the rest of a dimension."""
    return layers.crop(x, list(x.shape) if shape is None else shape, offsets, name)


def strided_slice(
    x: Variable,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
    name: str | None = None,
) -> Variable:
    """Every `strides`-th element from `starts` up to but without `ends` along `axes`."""
    return choosing.strided_slice(x, axes, starts, ends, strides)
