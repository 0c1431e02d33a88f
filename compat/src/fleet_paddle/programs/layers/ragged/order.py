"""What layers that go through ragged rows step by step share: all rows side by side in time."""

from __future__ import annotations

from typing import Any

from fleet_paddle.programs.ops.ragged.packing import ORDER
from fleet_programs.definition.dtypes import canonical
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import offsets_of
from fleet_programs.program.variable import Variable


def order_of(layer: LayerBuilder, input: Variable, is_reverse: bool = False) -> dict[str, Variable]:
    """The rows of a ragged variable side by side in time: those of an earlier layer over it, or made now."""
    offsets, block, attrs = offsets_of(layer, input), layer.block, {"is_reverse": bool(is_reverse)}
    for op in block.ops:
        if op.type == "sequence_order" and op.input("Offsets") == [offsets.name] and op.attrs == attrs:
            return {slot: block.var(op.output(slot)[0]) for slot in ORDER}
    made = {slot: layer.temporary("int64", stop_gradient=True) for slot in ORDER}
    layer.op("sequence_order", {"Offsets": offsets}, made, attrs)
    return made


def check_input(layer: LayerBuilder, input: Variable, columns: int, parts: int, dtype: Any = None) -> None:
    """Fail unless a layer's input is ragged and has the columns that its gates need."""
    offsets_of(layer, input)
    if input.ndim != 2 or input.shape[1] != columns or columns % parts:
        raise layer.error(
            f"input {input.name!r} must be [values, {parts} * width], {columns} columns as size says, got shape "
            f"{list(input.shape)}"
        )
    if dtype is not None and canonical(dtype) != input.dtype:
        raise layer.error(f"dtype is {dtype} and input {input.name!r} is {input.dtype}; cast it")
