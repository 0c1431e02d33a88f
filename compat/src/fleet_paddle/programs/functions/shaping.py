"""Functions that put elements elsewhere: joined, cut, turned, repeated, chosen."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.layers import choosing
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable
from fleet_paddle.programs.functions.making import full_like

__all__ = [
    "assign",
    "broadcast_to",
    "cast",
    "chunk",
    "concat",
    "diag",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "gather",
    "gather_nd",
    "index_select",
    "masked_select",
    "nonzero",
    "reshape",
    "scatter",
    "shape",
    "slice",
    "split",
    "squeeze",
    "stack",
    "t",
    "tile",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unsqueeze",
    "unstack",
    "where",
]

Axis = int | Sequence[int] | None

cast = layers.cast
transpose = layers.transpose


def concat(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Variables one after the other along a dimension."""
    return layers.concat(x, axis, name)


def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:  # noqa: ARG001
    """Variables side by side along a new dimension."""
    return layers.stack(x, axis)


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The parts along a dimension, which goes."""
    return layers.unstack(x, axis, num)


def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """The parts along a dimension, which goes."""
    return layers.unstack(input, axis)


def split(x: Variable, num_or_sections: int | Sequence[int], axis: int = 0, name: str | None = None) -> list[Variable]:
    """As many equal parts, or parts of these sizes."""
    return layers.split(x, num_or_sections, axis, name)


def chunk(x: Variable, chunks: int, axis: int = 0, name: str | None = None) -> list[Variable]:
    """As many equal parts."""
    return layers.split(x, chunks, axis, name)


def flatten(x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Variable:
    """The dimensions from one to another as one."""
    first, last = start_axis % x.ndim, stop_axis % x.ndim
    sizes = [0] * first + [-1] + list(x.shape[last + 1 :])
    if builtins.any(size < 0 for size in sizes[first + 1 :]):
        raise NotSupportedError(
            f"flatten: the sizes after dimension {last} must be known for a variable, got {list(x.shape)}"
        )
    return layers.reshape(x, sizes, name=name)


def reshape(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """The same values in another shape: -1 is what is left, 0 is the size that the dimension has."""
    return layers.reshape(x, shape, name=name)


def squeeze(x: Variable, axis: Axis = None, name: str | None = None) -> Variable:
    """Without dimensions of size 1: all, or those given."""
    axes = [axis] if isinstance(axis, int) else list(axis or ())
    return layers.squeeze(x, axes, name)


def unsqueeze(x: Variable, axis: int | Sequence[int], name: str | None = None) -> Variable:
    """With new dimensions of size 1."""
    return layers.unsqueeze(x, axis, name)


def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix with rows and columns exchanged; a vector as it is."""
    if input.ndim > 2:
        raise UsageError(f"t: input must have at most 2 dimensions, got shape {list(input.shape)}; use transpose")
    return layers.transpose(input, [1, 0], name) if input.ndim == 2 else input


def flip(x: Variable, axis: int | Sequence[int], name: str | None = None) -> Variable:  # noqa: ARG001
    """Back to front along some dimensions."""
    return layers.reverse(x, axis)


def slice(
    input: Variable,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    name: str | None = None,  # noqa: ARG001
) -> Variable:
    """The elements from `starts` up to but without `ends` along `axes`."""
    return layers.slice(input, axes, starts, ends)


def gather(x: Variable, index: Variable, axis: int = 0, name: str | None = None) -> Variable:  # noqa: ARG001
    """The entries along a dimension whose places `index` has."""
    if axis % x.ndim == 0:
        return layers.gather(x, index)
    order = [axis % x.ndim, *(one for one in range(x.ndim) if one != axis % x.ndim)]
    back = [order.index(one) for one in range(x.ndim)]
    return layers.transpose(layers.gather(layers.transpose(x, order), index), back)


def index_select(x: Variable, index: Variable, axis: int = 0, name: str | None = None) -> Variable:
    """The entries along a dimension whose places `index` has."""
    return gather(x, index, axis, name)


def gather_nd(x: Variable, index: Variable, name: str | None = None) -> Variable:
    """What is at each place; the last dimension of `index` counts along the first dimensions of `x`."""
    return layers.gather_nd(x, index, name)


def scatter(
    x: Variable, index: Variable, updates: Variable, overwrite: bool = True, name: str | None = None
) -> Variable:
    """`x` with the rows at `index` replaced by `updates`, or without `overwrite` by the sum of those for each."""
    return layers.scatter(x, index, updates, name, overwrite)


def tile(x: Variable, repeat_times: Sequence[int], name: str | None = None) -> Variable:
    """As many copies along each dimension; more numbers than dimensions make new ones."""
    times = list(repeat_times)
    missing = len(times) - x.ndim
    wide = layers.unsqueeze(x, list(range(missing))) if missing > 0 else x
    return layers.expand(wide, [1] * -missing + times, name)


def expand(x: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """As if copied along dimensions of size 1; -1 keeps a size."""
    layer = Layer("expand_v2", name)
    return layer.apply("expand_v2", {"X": layer.variable(x, "x")}, {"shape": [int(one) for one in shape]}, x.dtype)


broadcast_to = expand


def expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """`x`, with sizes of 1 repeated to those of `y`."""
    return layers.elementwise_add(full_like(y, 0, x.dtype), x, name=name)


def where(condition: Variable, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`x` where the condition holds, else `y`, which may be numbers; with the condition alone, where it holds.

    Those places are a variable for each dimension, of shape [number, 1].
    """
    if x is None and y is None:
        return tuple(layers.split(choosing.where(condition), condition.ndim, 1))
    dtype = x.dtype if isinstance(x, Variable) else y.dtype if isinstance(y, Variable) else "float32"
    both = [one if isinstance(one, Variable) else full_like(condition, one, dtype) for one in (x, y)]
    if len({one.shape for one in (condition, *both)}) > 1:
        nothing = full_like(condition, 0, dtype) + full_like(both[0], 0, dtype) + full_like(both[1], 0, dtype)
        both = [one + nothing for one in both]
        condition = (layers.cast(condition, dtype) + nothing) > 0.5
    return choosing.where(condition, both[0], both[1], name)


def nonzero(x: Variable, as_tuple: bool = False) -> Any:
    """Where the elements are not 0: [number, dimensions], or a variable for each dimension."""
    places = choosing.where(layers.cast(x, "bool"))
    return tuple(layers.split(places, x.ndim, 1)) if as_tuple else places


def masked_select(x: Variable, mask: Variable, name: str | None = None) -> Variable:
    """The elements where the mask holds, as a vector."""
    return layers.gather_nd(x, choosing.where(mask), name)


def tril(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The elements below the diagonal and on it, others 0."""
    return _kept(_beyond(x) <= float(diagonal), x, name)


def triu(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The elements above the diagonal and on it, others 0."""
    return _kept(_beyond(x) >= float(diagonal), x, name)


def _beyond(x: Variable) -> Variable:
    """How many columns each element is to the right of the diagonal, whatever sizes the batch brings."""
    if x.ndim < 2:
        raise UsageError(f"tril, triu: input must be matrices, got shape {list(x.shape)}")
    ones = full_like(x, 1, "float32")
    return layers.cumsum(ones, -1) - layers.cumsum(ones, -2)


def _kept(condition: Variable, x: Variable, name: str | None) -> Variable:
    made: Variable = where(condition, x, 0, name)
    return made


def diag(x: Variable, offset: int = 0, padding_value: float = 0, name: str | None = None) -> Variable:
    """A square matrix with a vector on its diagonal, or the diagonal of a matrix."""
    if offset or padding_value:
        raise NotSupportedError("diag: offset and padding_value must be 0 for a variable")
    if x.ndim == 2:
        one = layers.eye(x.shape[0], x.shape[1], dtype=x.dtype)
        return layers.reduce_sum(layers.elementwise_mul(x, one), 1, name=name)
    return layers.elementwise_mul(layers.eye(x.shape[0], dtype=x.dtype), x, name=name)


def assign(input: Any, output: Variable | None = None) -> Variable:
    """A copy of a variable, or a variable of an array's values."""
    return layers.assign(input, output)


shape = layers.shape
