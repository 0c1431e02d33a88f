"""Layers that change the rows of ragged input: reshape, slice, erase, scatter, other offsets, windows of ids."""

from __future__ import annotations

from collections.abc import Sequence

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets, offsets_of
from fleet_programs.program.variable import Variable

__all__ = [
    "lod_reset",
    "sequence_expand_as",
    "sequence_scatter",
]


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of the matrix `x` as often as row i of the ragged `y` has values."""
    layer = LayerBuilder("sequence_expand_as", name)
    inputs = {"X": layer.variable(x, "x"), "Y": y, "Offsets": offsets_of(layer, y, "y")}
    return layer.apply("sequence_expand", inputs, dtype=x.dtype)


def sequence_scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """The matrix `input` with row i of `updates` added to its row i, in the columns that row i of `index` has."""
    layer = LayerBuilder("sequence_scatter", name)
    offsets = offsets_of(layer, index, "index")
    if layer.variable(updates, "updates").lod not in (None, index.lod):
        raise layer.error(f"updates {updates.name!r} must have the rows of index {index.name!r}")
    inputs = {"X": layer.variable(input), "Ids": index, "Updates": updates, "Offsets": offsets}
    return layer.apply("sequence_scatter", inputs, dtype=input.dtype)


def lod_reset(x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None) -> Variable:
    """The same values in other rows: those of the ragged `y`, those whose offsets `y` holds, or `target_lod`, offsets.

    Offsets begin with 0, ascend, and end with the number of values.
    """
    layer = LayerBuilder("lod_reset")
    x = layer.variable(x, "x")
    if (y is None) == (target_lod is None):
        raise layer.error("give y or target_lod, and not both")
    given = None
    if y is not None:
        given = layer.variable(y, "y") if y.lod is None else layer.block.var(y.lod)
    out = layer.temporary(x.dtype)
    attrs = {"target_lod": [int(one) for one in target_lod or ()]}
    layer.op("lod_reset", {"X": x, "Y": given}, {"Out": out, "OutOffsets": new_offsets(layer, out)}, attrs)
    return out
