"""Layers over two variables, or over places in one: products of pairs, values added at places, a look ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet_paddle.programs.layers.table import scatter_nd_add
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets, offsets_of
from fleet_programs.layers.table import crop, fill_constant
from fleet_programs.program.variable import Variable

__all__ = [
    "bilinear_tensor_product",
    "crop_tensor",
    "filter_by_instag",
    "row_conv",
    "scatter_nd",
]


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Variable:
    """[rows, size]: x times a matrix times y, for `size` trained matrices; plus a bias."""
    layer = LayerBuilder("bilinear_tensor_product", name)
    shape = [size, layer.variable(x, "x").shape[-1], layer.variable(y, "y").shape[-1]]
    weight = layer.needed(param_attr, shape, x.dtype)
    bias = layer.parameter(bias_attr, [1, size], x.dtype, is_bias=True)
    inputs = {"X": x, "Y": y, "Weight": weight, "Bias": bias}
    return layer.activate(layer.apply("bilinear_tensor_product", inputs, {}, x.dtype), act)


def scatter_nd(index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """Zeros of a shape, with `updates` added at places."""
    layer = LayerBuilder("scatter_nd", name)
    return scatter_nd_add(fill_constant(shape, layer.variable(updates, "updates").dtype, 0.0), index, updates, name)


def crop_tensor(
    x: Variable,
    shape: Sequence[int] | None = None,
    offsets: Sequence[int] | None = None,
    name: str | None = None,
) -> Variable:
    """`crop`, whose shape is that of `x` if it is left out."""
    sizes = [-1] * x.ndim if shape is None else shape
    if any(isinstance(one, Variable) for given in (sizes, offsets or ()) for one in given):
        raise NotSupportedError("crop_tensor: shape and offsets must be numbers; -1 takes the rest of a dimension")
    return crop(x, sizes, offsets, name)


def row_conv(input: Variable, future_context_size: int, param_attr: Any = None, act: str | None = None) -> Variable:
    """Each value and the `future_context_size` ones after it in its row, each column by a trained weight, added."""
    layer = LayerBuilder("row_conv")
    offsets = offsets_of(layer, input)
    weight = layer.needed(param_attr, [future_context_size + 1, input.shape[-1]], input.dtype)
    out = layer.apply("row_conv", {"X": input, "Filter": weight, "Offsets": offsets}, {}, input.dtype)
    return layer.activate(out, act)


def filter_by_instag(
    ins: Variable, ins_tag: Variable, filter_tag: Variable, is_lod: bool, out_val_if_empty: float = 0
) -> tuple[Variable, Variable]:
    """(rows of `ins` one of whose tags is wanted, 1 for each of their values: a weight for the loss).

    `ins_tag` is ragged, the tags of each row; `filter_tag` has those that are wanted. With `is_lod` the rows of `ins`
    are ragged as well. If there is no such row, one of `out_val_if_empty` is given, whose weight is 0.
    """
    layer = LayerBuilder("filter_by_instag")
    if layer.variable(ins, "ins").dtype not in FLOATS:
        raise NotSupportedError(f"filter_by_instag: ins must be a float, got {ins.dtype}; cast it")
    inputs = {"Ins": ins, "Ins_tag": ins_tag, "Filter_tag": layer.variable(filter_tag, "filter_tag")}
    inputs["TagOffsets"] = offsets_of(layer, ins_tag, "ins_tag")
    out, weights = layer.temporary(ins.dtype), layer.temporary("float32", stop_gradient=True)
    outputs = {"Out": out, "LossWeight": weights, "Index": layer.temporary("int64", stop_gradient=True)}
    if is_lod:
        inputs["Offsets"] = offsets_of(layer, ins, "ins")
        outputs["OutOffsets"] = new_offsets(layer, out)
    layer.op("filter_by_instag", inputs, outputs, {"out_val_if_empty": float(out_val_if_empty)})
    return out, weights
