"""Layers that choose: where, multiplex, every so many elements, values repeated to a shape, distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.static.dtypes import canonical
from fleet.static.layers.arithmetic import cast
from fleet.static.layers.helper import Layer
from fleet.static.layers.table import equal, reduce_prod
from fleet.static.layers.tensor import fill_constant
from fleet.static.layers.tensor import shape as shape_of
from fleet.static.variable import Variable

__all__ = [
    "expand_as",
    "is_empty",
    "multiplex",
    "rank",
    "shard_index",
    "size",
    "strided_slice",
    "unique",
    "unique_with_counts",
    "where",
]


def where(
    condition: Variable, x: Variable | None = None, y: Variable | None = None, name: str | None = None
) -> Variable:
    """The places where `condition` is true, int64 [number, dimensions].

    With `x` and `y` it is the element of `x` where it is true, of `y` elsewhere; all have one shape.
    """
    layer = Layer("where", name)
    layer.variable(condition, "condition")
    if (x is None) != (y is None):
        raise layer.error("give both x and y, or none of them")
    if x is None or y is None:
        out = layer.apply("where_index", {"Condition": condition}, {}, "int64")
        out.stop_gradient = True
        return out
    inputs = {"Condition": condition, "X": layer.variable(x, "x"), "Y": layer.variable(y, "y")}
    return layer.apply("where", inputs, {}, x.dtype)


def multiplex(inputs: Sequence[Variable], index: Variable) -> Variable:
    """Row i of the variable that `index[i]` says."""
    layer = Layer("multiplex")
    parts = [layer.variable(one, "inputs") for one in inputs]
    if len(parts) < 2:
        raise layer.error(f"inputs must hold at least two variables, got {len(parts)}")
    return layer.apply("multiplex", {"X": parts, "Ids": layer.variable(index, "index")}, {}, parts[0].dtype)


def strided_slice(
    input: Variable, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], strides: Sequence[int]
) -> Variable:
    """Every `strides`-th element from `starts` up to but without `ends` along `axes`; below 0 backwards."""
    layer = Layer("strided_slice")
    given = (("axes", axes), ("starts", starts), ("ends", ends), ("strides", strides))
    attrs = {name: [int(one) for one in several] for name, several in given}
    return layer.apply("strided_slice", {"Input": layer.variable(input)}, attrs, input.dtype)


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """`x` repeated until it has the shape of another variable."""
    layer = Layer("expand_as", name)
    inputs = {"X": layer.variable(x, "x"), "target_tensor": layer.variable(target_tensor, "target_tensor")}
    return layer.apply("expand_as", inputs, {}, x.dtype)


def unique(x: Variable, dtype: Any = "int32") -> tuple[Variable, Variable]:
    """(the distinct values of [n], in the order in which they come first; which of them each element is)."""
    return unique_with_counts(x, dtype)[:2]


def unique_with_counts(x: Variable, dtype: Any = "int32") -> tuple[Variable, Variable, Variable]:
    """`unique`, and how often each value is there."""
    layer, kind = Layer("unique"), canonical(dtype)
    if kind not in ("int32", "int64"):
        raise layer.error(f"dtype must be int32 or int64, got {kind}")
    outs = [layer.temporary(one, stop_gradient=True) for one in (layer.variable(x, "x").dtype, kind, kind)]
    slots = dict(zip(("Out", "Index", "Count"), outs, strict=True))
    layer.op("unique_with_counts", {"X": x}, slots, {"dtype": kind})
    return outs[0], outs[1], outs[2]


def shard_index(input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Variable:
    """Indexes within one of `nshards` equal parts of `index_num`; `ignore_value` for those of other parts."""
    layer = Layer("shard_index")
    attrs = {"index_num": index_num, "nshards": nshards, "shard_id": shard_id, "ignore_value": ignore_value}
    out = layer.apply("shard_index", {"X": layer.variable(input)}, attrs, input.dtype)
    out.stop_gradient = True
    return out


def rank(input: Variable) -> Variable:
    """The number of dimensions, int32."""
    return fill_constant([1], "int32", Layer("rank").variable(input).ndim)


def size(input: Variable) -> Variable:
    """The number of elements of a variable in this batch, int64."""
    out = reduce_prod(cast(shape_of(Layer("size").variable(input)), "int64"))
    out.stop_gradient = True
    return out


def is_empty(x: Variable) -> Variable:
    """Whether a variable has no elements in this batch, bool."""
    return equal(size(Layer("is_empty").variable(x, "x")), fill_constant([1], "int64", 0))
