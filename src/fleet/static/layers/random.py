"""Layers that make random values, other ones in every run unless there is a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static.dtypes import canonical
from fleet.static.layers.helper import Layer
from fleet.static.layers.sizes import shape_and_sizes
from fleet.static.variable import Variable

__all__ = [
    "gaussian_random",
    "gaussian_random_batch_size_like",
    "randint",
    "sampling_id",
    "shuffle_batch",
    "uniform_random",
    "uniform_random_batch_size_like",
]

Shape = Sequence[int | Variable] | Variable
"""Sizes, of which some may be variables; or one variable that holds all."""


def uniform_random(
    shape: Shape, dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Variable:
    """Spread evenly from `min` to `max`."""
    attrs = {"min": float(min), "max": float(max), "seed": int(seed)}
    return _drawn(Layer("uniform_random", name), "random_uniform", shape, dtype, attrs)


def gaussian_random(
    shape: Shape, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32", name: str | None = None
) -> Variable:
    """Normally distributed."""
    attrs = {"mean": float(mean), "std": float(std), "seed": int(seed)}
    return _drawn(Layer("gaussian_random", name), "random_gaussian", shape, dtype, attrs)


def randint(
    low: int = 0,
    high: int | None = None,
    shape: Shape = (1,),
    dtype: Any = "int64",
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Whole numbers from `low` to below `high`; from 0 to below `low` if that is the only one."""
    first, last = (0, low) if high is None else (low, high)
    attrs = {"low": int(first), "high": int(last), "seed": int(seed)}
    return _drawn(Layer("randint", name), "randint", shape, dtype or "int64", attrs)


def _drawn(layer: Layer, type: str, shape: Shape, dtype: Any, attrs: dict[str, Any]) -> Variable:
    inputs, own = shape_and_sizes(layer, shape)
    kind = canonical(dtype)
    out = layer.apply(type, inputs, {**attrs, **own, "dtype": kind}, kind)
    out.stop_gradient = True
    return out


def uniform_random_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: Any = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Variable:
    """`uniform_random`, of the size of a dimension of `input` (its batch) along one dimension."""
    attrs = {"min": float(min), "max": float(max), "seed": int(seed)}
    return _drawn_like("uniform_random_batch_size_like", input, shape, dtype, input_dim_idx, output_dim_idx, attrs)


def gaussian_random_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = "float32",
) -> Variable:
    """`gaussian_random`, of the size of a dimension of `input` (its batch) along one dimension."""
    attrs = {"mean": float(mean), "std": float(std), "seed": int(seed)}
    return _drawn_like("gaussian_random_batch_size_like", input, shape, dtype, input_dim_idx, output_dim_idx, attrs)


def _drawn_like(
    type: str, input: Variable, shape: Sequence[int], dtype: Any, from_dim: int, to_dim: int, attrs: dict[str, Any]
) -> Variable:
    layer, kind = Layer(type), canonical(dtype)
    own = {"shape": [int(size) for size in shape], "dtype": kind, "input_dim_idx": from_dim, "output_dim_idx": to_dim}
    out = layer.apply(type, {"Input": layer.variable(input)}, {**attrs, **own}, kind)
    out.stop_gradient = True
    return out


def sampling_id(x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: Any = "int64") -> Variable:
    """A class for each row of chances [rows, classes], drawn by them."""
    layer, kind = Layer("sampling_id"), canonical(dtype)
    if (min, max) != (0.0, 1.0):
        raise NotSupportedError(f"sampling_id: min and max must be 0 and 1, got {min} and {max}")
    out = layer.apply("sampling_id", {"X": layer.variable(x, "x")}, {"seed": int(seed), "dtype": kind}, kind)
    out.stop_gradient = True
    return out


def shuffle_batch(x: Variable, seed: int | None = None) -> Variable:
    """The rows of `x` (all dimensions but the last are one) in another order in every run; a `seed` begins them."""
    layer = Layer("shuffle_batch")
    out = layer.temporary(layer.variable(x, "x").dtype)
    order = layer.temporary("int64", stop_gradient=True)
    layer.op("shuffle_batch", {"X": x}, {"Out": out, "ShuffleIdx": order}, {"seed": int(seed or 0)})
    return out
