"""What convolutions and pools share: sizes as users give them, and a convolution once its sizes are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static.dtypes import FLOATS
from fleet.static.initializer import Initializer
from fleet.static.layers.helper import LayerBuilder
from fleet.static.ops.conv import is_channel_last
from fleet.static.variable import Variable

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


def paddings(
    layer: LayerBuilder,
    padding: Any,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Zeros before and after each dimension."""
    rank = len(kernel)
    if padding == "VALID":
        return [0] * rank
    if padding == "SAME":
        totals = []
        for size, side, step, rate in zip(sizes, kernel, strides, dilations, strict=True):
            if size < 0 and step > 1:
                raise layer.error("padding 'SAME' with a stride needs an input of known sizes; give numbers")
            reach = rate * (side - 1) + 1
            totals.append(reach - 1 if step == 1 else max((-(-size // step) - 1) * step + reach - size, 0))
        if any(total % 2 for total in totals):
            raise NotSupportedError(
                f"{layer.kind}: padding 'SAME' would be one-sided here, {totals} zeros; pad the input"
            )
        return [total // 2 for total in totals]
    if isinstance(padding, list | tuple) and len(padding) == 2 * rank:
        befores, afters = list(padding[::2]), list(padding[1::2])
        if befores != afters:
            raise NotSupportedError(
                f"{layer.kind}: padding must be the same on both sides, got {padding}; pad the input"
            )
        padding = befores
    return each(layer, padding, rank, "padding", 0)


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
        "paddings": paddings(layer, padding, sizes, kernel, strides, dilations),
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
