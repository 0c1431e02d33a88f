"""What convolutions and pools share: sizes as users give them, and a convolution once its sizes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.operators.common.sides import SAME, one_for_each_stride, pairs_of, written
from fleet_programs.operators.networks.conv import is_channel_last
from fleet_programs.parameters.initializer import Initializer
from fleet_programs.program.variable import Variable

Sizes = int | Sequence[int]


def channels_and_sizes(
    layer: LayerBuilder, input: Variable, rank: int, data_format: str
) -> tuple[int, tuple[int, ...]]:
    """How many channels an image or volume has, and its sizes."""
    layer.variable(input)
    formats = ("NCHW", "NHWC") if rank == 2 else ("NCDHW", "NDHWC")
    if data_format not in formats:
        raise layer.error(f"data_format must be {' or '.join(formats)}, got {data_format!r}")
    if input.ndim != rank + 2:
        raise layer.error(
            f"input {input.name!r} must have {rank + 2} dimensions, {data_format}, got shape {list(input.shape)}"
        )
    if input.dtype not in FLOATS:
        raise layer.error(f"input {input.name!r} must be a float, got {input.dtype}; cast it")
    last = is_channel_last(data_format)
    channels = input.shape[-1] if last else input.shape[1]
    if channels < 1:
        raise layer.error(f"input {input.name!r} must have a known number of channels, got shape {list(input.shape)}")
    return channels, input.shape[1:-1] if last else input.shape[2:]


def grouped(layer: LayerBuilder, channels: int, num_filters: int, groups: int | None) -> int:
    """The number of groups: 1 if none is given."""
    groups = 1 if groups is None else groups
    if groups < 1 or channels % groups or num_filters % groups:
        raise layer.error(f"groups must divide {channels} channels and {num_filters} filters, got {groups}")
    return groups


def each(layer: LayerBuilder, value: Any, rank: int, what: str, least: int) -> list[int]:
    """One number for each dimension."""
    several = [value] * rank if isinstance(value, int) else list(value) if isinstance(value, list | tuple) else []
    if len(several) == 1:
        several *= rank
    if len(several) != rank or any(not isinstance(one, int) or one < least for one in several):
        raise layer.error(f"{what} must be a whole number >= {least}, or {rank} of them, got {value!r}")
    return several


def padding_attrs(
    layer: LayerBuilder,
    padding: Any,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    layout: str,
) -> dict[str, Any]:
    """Padding as users give it: "SAME", "VALID", a number, one for each dimension, two for each, or pairs of all."""
    rank = len(kernel)
    if isinstance(padding, str):
        if padding not in ("VALID", SAME):
            raise layer.error(f"padding must be 'SAME', 'VALID' or numbers, got {padding!r}")
        if padding == "VALID":
            return {"paddings": [0] * rank}
        if any(size < 0 and step > 1 for size, step in zip(sizes, strides, strict=True)):
            return {"paddings": [0] * rank, "padding_algorithm": SAME}  # which a batch decides
        return {"paddings": written(one_for_each_stride(sizes, kernel, strides, dilations))}
    given = list(padding) if isinstance(padding, list | tuple) else [padding]
    if len(given) == rank + 2 and all(isinstance(one, list | tuple) and len(one) == 2 for one in given):
        inner = given[1:-1] if is_channel_last(layout) else given[2:]
        given = [number for pair in inner for number in pair]
    if len(given) == 2 * rank:
        return {"paddings": written(pairs_of(each(layer, given, 2 * rank, "padding", 0), rank))}
    return {"paddings": each(layer, padding, rank, "padding", 0)}


def window_attrs(
    layer: LayerBuilder,
    sizes: Sequence[int],
    kernel: Sequence[int],
    window: tuple[Any, Any, Any],
    groups: int,
    layout: str,
) -> dict[str, Any]:
    """The attributes of a convolution, whose window is its stride, padding and dilation."""
    stride, padding, dilation = window
    rank = len(kernel)
    strides, dilations = each(layer, stride, rank, "stride", 1), each(layer, dilation, rank, "dilation", 1)
    return {
        "strides": strides,
        **padding_attrs(layer, padding, sizes, kernel, strides, dilations, layout),
        "dilations": dilations,
        "groups": groups,
        "data_format": layout,
    }


def finish(
    layer: LayerBuilder,
    type: str,
    input: Variable,
    shape: Sequence[int],
    num_filters: int,
    attrs: dict[str, Any],
    attr: tuple[Any, Any],
    act: str | None,
    default: Initializer | None,
) -> Variable:
    """Add a convolution's parameters, operator, bias and activation; `attr` are those of the weight and the bias."""
    weight = layer.needed(attr[0], shape, input.dtype, default=default)
    out = layer.temporary(input.dtype)
    layer.op(type, {"Input": input, "Filter": weight}, {"Output": out}, attrs)
    axis = out.ndim - 1 if is_channel_last(attrs["data_format"]) else 1
    return layer.activate(layer.biased(out, attr[1], num_filters, axis), act)


def without_reach(sizes: Sequence[int], attrs: Mapping[str, Any]) -> list[int]:
    """The sizes that filters without any reach would give."""
    pairs = pairs_of(attrs["paddings"], len(sizes))
    return [(size - 1) * step - sum(pair) for size, step, pair in zip(sizes, attrs["strides"], pairs, strict=True)]


def output_padding(
    layer: LayerBuilder, wanted: Sequence[int], sizes: Sequence[int], kernel: Sequence[int], attrs: Mapping[str, Any]
) -> list[int]:
    """What is wanted beyond the least size that the filters reach; less than a stride."""
    reaches = zip(without_reach(sizes, attrs), attrs["dilations"], kernel, strict=True)
    least = [begin + rate * (side - 1) + 1 for begin, rate, side in reaches]
    extra = [out - low for out, low in zip(wanted, least, strict=True)]
    if any(not 0 <= more < step for more, step in zip(extra, attrs["strides"], strict=True)):
        most = [low + step - 1 for low, step in zip(least, attrs["strides"], strict=True)]
        raise layer.error(f"output_size must be from {least} to {most}, got {list(wanted)}")
    return extra


def add_pool(
    layer: LayerBuilder, type: str, input: Variable, way: str, attrs: dict[str, Any]
) -> tuple[Variable, Variable | None]:
    """Add the operator; its result and, of "max", where each greatest value was: the gradient goes there."""
    if way not in ("max", "avg"):
        raise layer.error(f"pool_type must be 'max' or 'avg', got {way!r}")
    out = layer.temporary(input.dtype)
    mask = layer.temporary("int64", stop_gradient=True) if way == "max" else None
    layer.op(type, {"X": input}, {"Out": out, "Mask": mask}, {"pooling_type": way, **attrs})
    return out, mask
