"""What layers over ragged variables share: where rows begin, a variable for the rows of an output, rows in time."""

from __future__ import annotations

from typing import Any

from fleet.static.layers.helper import Layer
from fleet.static.names import LOD
from fleet.static.ops.packing import ORDER
from fleet.static.variable import Variable


def offsets_of(layer: Layer, value: Any, what: str = "input") -> Variable:
    """Where the rows of a ragged variable begin; an error if it has none."""
    var = layer.variable(value, what)
    if var.lod is None:
        raise layer.error(f"{what} {var.name!r} must be ragged; declare it with data(..., lod_level=1)")
    return layer.block.var(var.lod)


def new_offsets(layer: Layer, out: Variable) -> Variable:
    """The variable for the offsets of an output that has rows of its own."""
    return layer.block.create_var(out.name + LOD, [-1], "int64", stop_gradient=True)


def order_of(layer: Layer, input: Variable, is_reverse: bool = False) -> dict[str, Variable]:
    """The rows of a ragged variable side by side in time: those of an earlier layer over it, or made now."""
    offsets, block, attrs = offsets_of(layer, input), layer.block, {"is_reverse": bool(is_reverse)}
    for op in block.ops:
        if op.type == "sequence_order" and op.input("Offsets") == [offsets.name] and op.attrs == attrs:
            return {slot: block.var(op.output(slot)[0]) for slot in ORDER}
    made = {slot: layer.temporary("int64", stop_gradient=True) for slot in ORDER}
    layer.op("sequence_order", {"Offsets": offsets}, made, attrs)
    return made
