"""Layers that choose, and those that ask how large a variable is in this batch."""

from __future__ import annotations

from fleet_programs.layers.arithmetic import cast
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.table import equal, fill_constant, reduce_prod
from fleet_programs.layers.table import shape as shape_of
from fleet_programs.program.variable import Variable

__all__ = ["is_empty", "rank", "size", "where"]


def where(
    condition: Variable, x: Variable | None = None, y: Variable | None = None, name: str | None = None
) -> Variable:
    """The places where `condition` is true, int64 [number, dimensions].

    With `x` and `y` it is the element of `x` where it is true, of `y` elsewhere; all have one shape.
    """
    layer = LayerBuilder("where", name)
    layer.variable(condition, "condition")
    if (x is None) != (y is None):
        raise layer.error("give both x and y, or none of them")
    if x is None or y is None:
        out = layer.apply("where_index", {"Condition": condition}, {}, "int64")
        out.stop_gradient = True
        return out
    inputs = {"Condition": condition, "X": layer.variable(x, "x"), "Y": layer.variable(y, "y")}
    return layer.apply("where", inputs, {}, x.dtype)


def rank(input: Variable) -> Variable:
    """The number of dimensions, int32."""
    return fill_constant([1], "int32", LayerBuilder("rank").variable(input).ndim)


def size(input: Variable) -> Variable:
    """The number of elements of a variable in this batch, int64."""
    out = reduce_prod(cast(shape_of(LayerBuilder("size").variable(input)), "int64"))
    out.stop_gradient = True
    return out


def is_empty(x: Variable) -> Variable:
    """Whether a variable has no elements in this batch, bool."""
    return equal(size(LayerBuilder("is_empty").variable(x, "x")), fill_constant([1], "int64", 0))
