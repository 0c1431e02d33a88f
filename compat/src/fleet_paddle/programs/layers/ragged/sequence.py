"""Layers over ragged input: convolution, joining and padding of the rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets, offsets_of
from fleet_programs.program.variable import Variable

_LAST = 2**31 - 1
"""The end of anything."""

__all__ = ["sequence_concat", "sequence_conv", "sequence_expand", "sequence_pad"]


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A convolution along each row. A window begins `padding_start` from its value; half of it before if left out.

    What is outside of the row counts as zeros, so `padding` cannot be switched off.
    """
    layer = LayerBuilder("sequence_conv", name)
    offsets = offsets_of(layer, input)
    if filter_stride != 1:
        raise layer.error(f"filter_stride must be 1, got {filter_stride}")
    if padding is not True:
        raise layer.error(f"padding must be True, got {padding!r}; rows keep their lengths")
    if filter_size < 1:
        raise layer.error(f"filter_size must be >= 1, got {filter_size}")
    weight = layer.needed(param_attr, [filter_size * input.shape[-1], num_filters], input.dtype)
    begin = -(filter_size // 2) if padding_start is None else padding_start
    attrs = {"contextLength": filter_size, "contextStart": begin, "contextStride": filter_stride}
    out = layer.apply("sequence_conv", {"X": input, "Filter": weight, "Offsets": offsets}, attrs, input.dtype)
    return layer.activate(layer.biased(out, bias_attr, num_filters, 1), act)


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None) -> Variable:
    """Row i of `x` as often as row i of the ragged `y` has values; or, by groups of rows, as group i has rows.

    `ref_level` counts the levels of `y` from the outermost; -1 is that of its rows.
    """
    layer = LayerBuilder("sequence_expand", name)
    offsets = offsets_of(layer, y, "y")
    levels = layer.block.levels_of(y)[::-1]
    if not -1 <= ref_level < len(levels):
        raise layer.error(f"ref_level must be from -1 to {len(levels) - 1}, the levels of {y.name!r}, got {ref_level}")
    inputs: dict[str, Any] = {"X": layer.variable(x, "x"), "Y": y, "Offsets": offsets}
    if ref_level == 0 and len(levels) == 2:
        inputs["Y"] = layers.slice(offsets, axes=[0], starts=[1], ends=[_LAST])  # one for each row
        inputs["Offsets"] = layer.block.var(levels[0])
    if x.lod is None:
        return layer.apply("sequence_expand", inputs, dtype=x.dtype)
    out = layer.temporary(x.dtype)
    inputs["XOffsets"] = layer.block.var(x.lod)
    layer.op("sequence_expand", inputs, {"Out": out, "OutOffsets": new_offsets(layer, out)})
    return out


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """Row i of each variable, one after the other, as row i."""
    layer = LayerBuilder("sequence_concat", name)
    if not isinstance(input, list | tuple) or not input:
        raise layer.error(f"input must be a list of variables, got {input!r}")
    offsets = [offsets_of(layer, one) for one in input]
    out = layer.temporary(input[0].dtype)
    layer.op("sequence_concat", {"X": input, "Offsets": offsets}, {"Out": out, "OutOffsets": new_offsets(layer, out)})
    return out


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """Rows filled up with `pad_value` to `maxlen`, or to the longest of the batch; and how long each was."""
    layer = LayerBuilder("sequence_pad", name)
    offsets = offsets_of(layer, x, "x")
    out, sizes = layer.temporary(x.dtype), layer.temporary("int64", stop_gradient=True)
    layer.op(
        "sequence_pad",
        {"X": x, "PadValue": layer.variable(pad_value, "pad_value"), "Offsets": offsets},
        {"Out": out, "Length": sizes},
        {"padded_length": -1 if maxlen is None else maxlen},
    )
    return out, sizes
