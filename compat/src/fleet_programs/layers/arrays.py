"""Arrays of tensors, which loops write and read by index."""

from __future__ import annotations

from typing import Any

from fleet_programs.definition.dtypes import canonical
from fleet_programs.definition.kinds import ARRAY
from fleet_programs.expressions.names import LOD
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["array_length", "array_read", "array_write", "create_array", "tensor_array_to_tensor"]


def create_array(dtype: Any = "float32", name: str | None = None) -> Variable:
    """An empty array, which `array_write` fills."""
    layer = LayerBuilder("array", name)
    out = layer.temporary(canonical(dtype))
    out.kind = ARRAY
    layer.op("create_array", {}, {"Out": out}, {"dtype": canonical(dtype)})
    return out


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """The array with a copy of `x` at place `i`; it grows as far as it must. A new array if none is given.

    What is written first decides whether it holds ragged values: where their rows begin is in an array beside it.
    """
    layer = LayerBuilder("array_write")
    value = layer.variable(x, "x")
    target = create_array(value.dtype) if array is None else layer.variable(array, "array")
    if target.lod is None and value.lod is not None and not target.shape:
        offsets = target.block.create_var(target.name + LOD, dtype="int64", kind=ARRAY, stop_gradient=True)
        target.block.append_op("create_array", {}, {"Out": offsets}, {"dtype": "int64"})
        target.lod = offsets.name
    if target.lod is not None:
        if value.lod is None:
            raise layer.error(f"array {target.name!r} holds ragged values, and x {value.name!r} is none; use lod_reset")
        array_write(layer.block.var(value.lod), i, layer.block.var(target.lod))
    layer.op("write_to_array", {"X": value, "I": layer.variable(i, "i"), "Array": target}, {"Out": target})
    return target


def array_read(array: Variable, i: Variable) -> Variable:
    """The tensor at place `i`, ragged as it was written."""
    layer = LayerBuilder("array_read")
    var = layer.variable(array, "array")
    out = layer.apply("read_from_array", {"X": var, "I": layer.variable(i, "i")}, {}, var.dtype)
    if var.lod is not None:
        offsets = array_read(layer.block.var(var.lod), i)
        offsets.stop_gradient = True
        out.lod = offsets.name
    return out


def array_length(array: Variable) -> Variable:
    """How many tensors it has, int64 [1]."""
    layer = LayerBuilder("array_length")
    out = layer.apply("lod_array_length", {"X": layer.variable(array, "array")}, {}, "int64")
    out.stop_gradient = True
    return out


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """(all tensors joined along an axis, or stacked along a new one; how long each is there, int32)."""
    layer = LayerBuilder("tensor_array_to_tensor", name)
    var = layer.variable(input)
    out, sizes = layer.temporary(var.dtype), layer.temporary("int32", stop_gradient=True)
    attrs = {"axis": int(axis), "use_stack": bool(use_stack)}
    layer.op("tensor_array_to_tensor", {"X": var}, {"Out": out, "OutIndex": sizes}, attrs)
    return out, sizes
