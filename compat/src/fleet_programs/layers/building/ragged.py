"""What layers over ragged variables share: where rows begin, a variable for the rows of an output."""

from __future__ import annotations

from typing import Any

from fleet_programs.expressions.names import LOD
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable


def offsets_of(layer: LayerBuilder, value: Any, what: str = "input") -> Variable:
    """Where the rows of a ragged variable begin; an error if it has none."""
    var = layer.variable(value, what)
    if var.lod is None:
        raise layer.error(f"{what} {var.name!r} must be ragged; declare it with data(..., lod_level=1)")
    return layer.block.var(var.lod)


def new_offsets(layer: LayerBuilder, out: Variable) -> Variable:
    """The variable for the offsets of an output that has rows of its own."""
    return layer.block.create_var(out.name + LOD, [-1], "int64", stop_gradient=True)
