"""Layers that change the rows of ragged input: reshape, slice, erase, scatter, other offsets, windows of ids."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.static.layers.helper import Layer
from fleet.static.layers.ragged import new_offsets, offsets_of
from fleet.static.variable import Variable

__all__ = [
    "lod_reset",
    "sequence_enumerate",
    "sequence_erase",
    "sequence_expand_as",
    "sequence_reshape",
    "sequence_scatter",
    "sequence_slice",
]


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """Rows of another width: [values, width] becomes [values * width / new_dim, new_dim], row by row."""
    layer = Layer("sequence_reshape")
    return _changed(layer, "sequence_reshape", input, {"new_dim": int(new_dim)})


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of the matrix `x` as often as row i of the ragged `y` has values."""
    layer = Layer("sequence_expand_as", name)
    inputs = {"X": layer.variable(x, "x"), "Y": y, "Offsets": offsets_of(layer, y, "y")}
    return layer.apply("sequence_expand", inputs, dtype=x.dtype)


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """Of row i the `length[i]` values from `offset[i]` on."""
    layer = Layer("sequence_slice", name)
    more = {"Offset": layer.variable(offset, "offset"), "Length": layer.variable(length, "length")}
    return _changed(layer, "sequence_slice", input, {}, more)


def sequence_erase(input: Variable, tokens: Sequence[int], name: str | None = None) -> Variable:
    """Ids without those that `tokens` has; rows become shorter."""
    layer = Layer("sequence_erase", name)
    out = _changed(layer, "sequence_erase", input, {"tokens": [int(one) for one in tokens]})
    out.stop_gradient = True
    return out


def sequence_enumerate(input: Variable, win_size: int, pad_value: int = 0, name: str | None = None) -> Variable:
    """For each id of a row itself and those after it, `win_size` in all; `pad_value` past the end of the row."""
    layer = Layer("sequence_enumerate", name)
    inputs = {"X": input, "Offsets": offsets_of(layer, input)}
    attrs = {"win_size": int(win_size), "pad_value": int(pad_value)}
    out = layer.apply("sequence_enumerate", inputs, attrs, input.dtype)
    out.stop_gradient = True
    return out


def sequence_scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """The matrix `input` with row i of `updates` added to its row i, in the columns that row i of `index` has."""
    layer = Layer("sequence_scatter", name)
    offsets = offsets_of(layer, index, "index")
    if layer.variable(updates, "updates").lod not in (None, index.lod):
        raise layer.error(f"updates {updates.name!r} must have the rows of index {index.name!r}")
    inputs = {"X": layer.variable(input), "Ids": index, "Updates": updates, "Offsets": offsets}
    return layer.apply("sequence_scatter", inputs, dtype=input.dtype)


def lod_reset(x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None) -> Variable:
    """The same values in other rows: those of the ragged `y`, those whose offsets `y` holds, or `target_lod`, offsets.

    Offsets begin with 0, ascend, and end with the number of values.
    """
    layer = Layer("lod_reset")
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


def _changed(
    layer: Layer, type: str, input: Variable, attrs: dict[str, object], more: dict[str, Variable] | None = None
) -> Variable:
    """An operator over the rows of `input` that gives rows of its own."""
    offsets = offsets_of(layer, input)
    out = layer.temporary(input.dtype)
    inputs = {"X": input, "Offsets": offsets, **(more or {})}
    layer.op(type, inputs, {"Out": out, "OutOffsets": new_offsets(layer, out)}, attrs)
    return out
