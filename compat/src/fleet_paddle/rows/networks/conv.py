"""Rows of convolutions of sequences, images and volumes, and of the transposed ones, which go the other way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import sizes
from fleet_paddle.rows.function import Function, function
from fleet_paddle.rows.function_builder import function_builder
from fleet_paddle.rows.window import FORMATS, KINDS, back, each, equal_sides, flat, is_last, sides, to_first, wide
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.images import windows
from fleet_programs.operators.networks.conv import is_channel_last
from fleet_programs.program.variable import Variable

T = torch.Tensor

_FORWARD: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _conv(
    rank: int, x: T, weight: T, bias: T | None, stride: Any, padding: Any, dilation: Any, groups: int, layout: str
) -> T:
    what = f"conv{rank}d"
    last = is_last(what, layout, rank)
    if type(padding) is int and not last:
        made: T = _FORWARD[rank](x, weight, bias, stride, padding, dilation, groups)
        return made
    image = to_first(x, last)
    around = sides(what, padding, last, image.shape[2:], weight.shape[2:], stride, dilation)
    pads = equal_sides(around)
    if pads is None:
        image, pads = F.pad(image, flat(around)), [0] * rank
    return back(_FORWARD[rank](image, weight, bias, stride, pads, dilation, groups), last)


def _conv_of_variables(
    rank: int, x: Variable, weight: Variable, bias: Variable | None, stride: Any, padding: Any, *settings: Any
) -> Variable:
    dilation, groups, data_format, name = settings
    if rank == 1:
        window = (wide(stride, 1), wide(padding, 0), wide(dilation, 1))
        made = _conv_of_variables(2, *_high(x, weight, data_format), bias, *window, groups, *_layout(data_format), name)
        return _flat(made, data_format)
    layer = function_builder(f"conv{rank}d", name)
    _, shape = windows.channels_and_sizes(layer, x, rank, data_format)
    kernel = list(layer.variable(weight, "weight").shape[2:])
    attrs = windows.window_attrs(layer, shape, kernel, (stride, _word(padding), dilation), int(groups), data_format)
    return _added(layer, f"conv{rank}d", x, weight, bias, attrs)


def _transposed_of_variables(
    rank: int, x: Variable, weight: Variable, bias: Variable | None, stride: Any, padding: Any, *settings: Any
) -> Variable:
    output_padding, dilation, groups, output_size, data_format, name = settings
    if rank == 1:
        window = (wide(stride, 1), wide(padding, 0), wide(output_padding, 0), wide(dilation, 1))
        size = None if output_size is None else wide(output_size, 1)
        both = _high(x, weight, data_format)
        made = _transposed_of_variables(2, *both, bias, *window, groups, size, *_layout(data_format), name)
        return _flat(made, data_format)
    layer = function_builder(f"conv{rank}d_transpose", name)
    _, shape = windows.channels_and_sizes(layer, x, rank, data_format)
    kernel = list(layer.variable(weight, "weight").shape[2:])
    attrs = windows.window_attrs(layer, shape, kernel, (stride, _word(padding), dilation), int(groups), data_format)
    attrs["output_padding"] = each("output_padding", output_padding, rank)
    if output_size is not None:
        wanted = each(f"{layer.kind}: output_size", sizes(output_size), rank)
        if -1 in shape:
            raise layer.error(f"output_size needs an input of known sizes, got shape {list(x.shape)}; leave it out")
        attrs["output_padding"] = windows.output_padding(layer, wanted, shape, kernel, attrs)
    return _added(layer, f"conv{rank}d_transpose", x, weight, bias, attrs)


def _word(padding: Any) -> Any:
    return padding.upper() if isinstance(padding, str) else padding


def _added(
    layer: LayerBuilder, type: str, x: Variable, weight: Variable, bias: Variable | None, attrs: dict[str, Any]
) -> Variable:
    out = layer.temporary(x.dtype)
    layer.op(type, {"Input": x, "Filter": weight}, {"Output": out}, attrs)
    if bias is None:
        return out
    axis = out.ndim - 1 if is_channel_last(attrs["data_format"]) else 1
    return layer.apply("elementwise_add", {"X": out, "Y": bias}, {"axis": axis}, out.dtype)


def _high(x: Variable, weight: Variable, data_format: str) -> tuple[Variable, Variable]:
    """Sequences and their filters as images of height 1."""
    return layers.unsqueeze(x, [1 if is_last("conv1d", data_format, 1) else 2]), layers.unsqueeze(weight, [2])


def _layout(data_format: str) -> tuple[str]:
    return ("NHWC" if is_last("conv1d", data_format, 1) else "NCHW",)


def _flat(image: Variable, data_format: str) -> Variable:
    """The way back."""
    return layers.squeeze(image, [1 if is_last("conv1d", data_format, 1) else 2])


def _transposed(rank: int, x: T, weight: T, bias: T | None, stride: Any, padding: Any, *settings: Any) -> T:
    output_padding, dilation, groups, output_size, data_format = settings
    what = f"conv{rank}d_transpose"
    last = is_last(what, data_format, rank)
    image = to_first(x, last)
    around = sides(what, padding, last, image.shape[2:], weight.shape[2:], stride, dilation)
    steps, rates, extra = (each(what, one, rank) for one in (stride, dilation, output_padding))
    if output_size is not None:
        wanted = each(f"{what}: output_size", sizes(output_size), rank)
        least = [
            (size - 1) * step - before - after + rate * (side - 1) + 1
            for size, step, rate, side, (before, after) in zip(
                image.shape[2:], steps, rates, weight.shape[2:], around, strict=True
            )
        ]
        extra = [one - fewest for one, fewest in zip(wanted, least, strict=True)]
        if any(not 0 <= more < step for more, step in zip(extra, steps, strict=True)):
            most = [fewest + step - 1 for fewest, step in zip(least, steps, strict=True)]
            raise UsageError(f"{what}: output_size must be from {least} to {most}, got {wanted}")
    pads = equal_sides(around)
    made = _TRANSPOSED[rank](image, weight, bias, steps, pads or [0] * rank, extra, groups, rates)
    if pads is None:
        for dim, (before, after) in enumerate(around, 2):
            made = torch.narrow(made, dim, before, made.shape[dim] - before - after)
    return back(made, last)


def _by_groups(transposed: Callable[..., Any]) -> Callable[..., Any]:
    """The same with `groups` before `dilation`, as 2.0 has it for sequences and volumes."""

    def called(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, *settings: Any) -> Any:
        output_padding, groups, dilation, *others = settings
        return transposed(x, weight, bias, stride, padding, output_padding, dilation, groups, *others)

    return called


def _forward_row(rank: int) -> Function:
    return function(
        f"F.conv{rank}d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, "
        f"data_format={FORMATS[rank][0]!r}, name)",
        f"A convolution of {KINDS[rank]}s; the filter is [out_channels, in_channels / groups, sizes...].",
        partial(_conv, rank),
        partial(_conv_of_variables, rank),
        num_operands=2,
    )


def _transposed_row(rank: int) -> Function:
    order = "dilation=1, groups=1" if rank == 2 else "groups=1, dilation=1"
    return function(
        f"F.conv{rank}d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, {order}, "
        f"output_size=None, data_format={FORMATS[rank][0]!r}, name)",
        f"""A transposed convolution of {KINDS[rank]}s: the filter is [in_channels, out_channels / groups, sizes...].

    Several output sizes have the same input size: `output_padding` says how many more there are than the fewest, or
    `output_size` says how many there are.
    """,
        partial(_transposed, rank) if rank == 2 else _by_groups(partial(_transposed, rank)),
        partial(_transposed_of_variables, rank) if rank == 2 else _by_groups(partial(_transposed_of_variables, rank)),
        num_operands=2,
    )


FUNCTIONS = [row(rank) for row in (_forward_row, _transposed_row) for rank in (1, 2, 3)]
