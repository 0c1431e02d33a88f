"""Functions that make variables of numbers alone: constants, ranges, random numbers that differ from run to run."""
# ruff: noqa: ARG001  (results have names of their own)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleet.static import layers
from fleet.static.dtypes import canonical
from fleet.static.layers import random
from fleet.static.layers.helper import Layer
from fleet.static.variable import Parameter, Variable

__all__ = [
    "arange",
    "create_parameter",
    "empty",
    "eye",
    "full",
    "full_like",
    "linspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "randint",
    "randn",
    "randperm",
    "standard_normal",
    "to_tensor",
    "uniform",
    "zeros",
    "zeros_like",
]

Size = int | Sequence[int]


def create_parameter(
    shape: Sequence[int],
    dtype: Any = "float32",
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter:
    """A variable to train, with first values as `attr` or the initialiser says."""
    return layers.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Variable:
    """A variable of numbers, lists or an array, which the program holds; a variable stays as it is."""
    made = data if isinstance(data, Variable) else layers.assign(np.asarray(data) if hasattr(data, "shape") else data)
    made = made if dtype is None or made.dtype == canonical(dtype) else layers.cast(made, dtype)
    if made is not data:
        made.stop_gradient = stop_gradient
    return made


def zeros(shape: Size, dtype: Any = None, name: str | None = None) -> Variable:
    """Zeros."""
    return full(shape, 0, dtype)


def ones(shape: Size, dtype: Any = None, name: str | None = None) -> Variable:
    """Ones."""
    return full(shape, 1, dtype)


def empty(shape: Size, dtype: Any = None, name: str | None = None) -> Variable:
    """Zeros, where tensors have whatever was there."""
    return full(shape, 0, dtype)


def full(shape: Size, fill_value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """One value everywhere."""
    return layers.fill_constant(_sizes(shape), dtype or "float32", fill_value)


def full_like(x: Variable, fill_value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """One value everywhere, in the shape and, unless given, the type of `x`."""
    layer = Layer("full_like")
    kind = layer.variable(x, "x").dtype if dtype is None else canonical(dtype)
    made = layer.apply("fill_any_like", {"X": x}, {"value": float(fill_value), "dtype": kind}, kind)
    made.stop_gradient = True
    return made


def zeros_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Zeros in the shape of `x`."""
    return full_like(x, 0, dtype)


def ones_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Ones in the shape of `x`."""
    return full_like(x, 1, dtype)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None) -> Variable:
    """From `start`, or 0, up to but not including `end`."""
    if end is None:
        start, end = 0, start
    are_whole = all(isinstance(one, int) for one in (start, end, step))
    return layers.range(start, end, step, dtype or ("int64" if are_whole else "float32"))


def linspace(start: float, stop: float, num: int, dtype: Any = None, name: str | None = None) -> Variable:
    """`num` numbers from `start` to `stop`, both included."""
    return layers.linspace(start, stop, num, dtype or "float32")


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None) -> Variable:
    """Ones on the diagonal."""
    return layers.eye(num_rows, num_columns, dtype=dtype or "float32")


def uniform(
    shape: Size, dtype: Any = None, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Variable:
    """Numbers spread evenly over [min, max), others at each run; with a `seed` the same each time."""
    return random.uniform_random(_sizes(shape), dtype or "float32", min, max, seed)


def rand(shape: Size, dtype: Any = None, name: str | None = None) -> Variable:
    """Numbers spread evenly over [0, 1), others at each run."""
    return uniform(shape, dtype, 0.0, 1.0)


def normal(mean: float = 0.0, std: float = 1.0, shape: Size = (1,), name: str | None = None) -> Variable:
    """Normally distributed numbers, others at each run."""
    return random.gaussian_random(_sizes(shape), mean, std)


def randn(shape: Size, dtype: Any = None, name: str | None = None) -> Variable:
    """Normally distributed numbers of mean 0 and deviation 1, others at each run."""
    return random.gaussian_random(_sizes(shape), dtype=dtype or "float32")


standard_normal = randn


def randint(
    low: int = 0, high: int | None = None, shape: Size = (1,), dtype: Any = None, name: str | None = None
) -> Variable:
    """Whole numbers from `low` up to but not including `high`, others at each run; with one bound, from 0 up to it."""
    return random.randint(low, high, _sizes(shape), dtype or "int64")


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Variable:
    """The numbers from 0 to n - 1, mixed anew at each run."""
    order = layers.argsort(rand([n]))[1]
    return order if canonical(dtype) == "int64" else layers.cast(order, dtype)


def _sizes(shape: Any) -> Any:
    return [shape] if isinstance(shape, int) else shape
