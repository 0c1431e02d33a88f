"""Layers about places: gather, scatter, one_hot, topk, argmax, argsort."""

from __future__ import annotations

from fleet.errors import NotSupportedError
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = ["argmax", "argmin", "argsort", "gather", "gather_nd", "one_hot", "scatter", "topk"]


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """The rows of `input` at `index`; the gradients of a row that is taken twice are added."""
    layer = Layer("gather")
    if not overwrite:
        raise NotSupportedError("gather: overwrite must be True; gradients of equal indexes are always added")
    inputs = {"X": layer.variable(input), "Index": layer.variable(index, "index")}
    return layer.apply("gather", inputs, {}, input.dtype)


def scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None, overwrite: bool = True
) -> Variable:
    """`input` with the rows at `index` replaced by `updates`, or without `overwrite` by the sum of those for each."""
    layer = Layer("scatter", name)
    inputs = {
        "X": layer.variable(input),
        "Ids": layer.variable(index, "index"),
        "Updates": layer.variable(updates, "updates"),
    }
    return layer.apply("scatter", inputs, {"overwrite": bool(overwrite)}, input.dtype)


def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """What is at each place; the last dimension of `index` counts along the first dimensions of `input`."""
    layer = Layer("gather_nd", name)
    inputs = {"X": layer.variable(input), "Index": layer.variable(index, "index")}
    return layer.apply("gather_nd", inputs, {}, input.dtype)


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """For each class of [..., 1] a row of [..., depth] that is 1 there; zeros for a class past `depth`, if allowed."""
    layer = Layer("one_hot")
    attrs = {"depth": int(depth), "allow_out_of_range": bool(allow_out_of_range)}
    out = layer.apply("one_hot", {"X": layer.variable(input)}, attrs, "float32")
    out.stop_gradient = True
    return out


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """(the `k` largest values along the last dimension, their indexes), largest first."""
    layer = Layer("topk", name)
    if isinstance(k, Variable):
        raise NotSupportedError("topk: k must be a number; a shape that depends on values is not built")
    values, indices = layer.temporary(layer.variable(input).dtype), layer.temporary("int64", stop_gradient=True)
    layer.op("top_k", {"X": input}, {"Out": values, "Indices": indices}, {"k": int(k)})
    return values, indices


def argmax(x: Variable, axis: int = 0) -> Variable:
    """The index of the largest element along an axis."""
    layer = Layer("argmax")
    return layer.apply("arg_max", {"X": layer.variable(x, "x")}, {"axis": int(axis)}, "int64")


def argmin(x: Variable, axis: int = 0) -> Variable:
    """The index of the smallest element along an axis."""
    layer = Layer("argmin")
    return layer.apply("arg_min", {"X": layer.variable(x, "x")}, {"axis": int(axis)}, "int64")


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """(the elements in order along an axis, where each was)."""
    layer = Layer("argsort", name)
    out, indices = layer.temporary(layer.variable(input).dtype), layer.temporary("int64", stop_gradient=True)
    layer.op(
        "argsort", {"X": input}, {"Out": out, "Indices": indices}, {"axis": int(axis), "descending": bool(descending)}
    )
    return out, indices
