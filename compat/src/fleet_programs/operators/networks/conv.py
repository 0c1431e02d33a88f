"""Convolutions over images and volumes, and the transposed ones."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.sides import (
    ATTRS,
    check_paddings,
    cropped,
    even,
    finding,
    is_same,
    one_for_each_stride,
    pairs_of,
    wider,
)

_aten = torch.ops.aten
_RANKS = {"conv2d": 2, "conv3d": 3, "conv2d_transpose": 2, "conv3d_transpose": 3}


def is_channel_last(data_format: str) -> bool:
    """Whether the channels come after the sizes of the image."""
    return data_format in ("NHWC", "NDHWC")


def _to_first(rank: int) -> tuple[int, ...]:
    return (0, rank + 1, *range(1, rank + 1))


def _to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank + 2), 1)


def _infer(infer: Infer) -> None:
    type = infer.op.type
    rank, is_transposed = _RANKS[type], type.endswith("_transpose")
    infer.require_dtype("Input", FLOATS)
    infer.require_rank("Input", rank + 2)
    infer.require_rank("Filter", rank + 2)
    x, weight, groups = infer.var("Input"), infer.var("Filter"), infer.attr("groups")
    if x.dtype != weight.dtype:
        raise infer.fail(
            f"Input {x.name!r} is {x.dtype} and Filter {weight.name!r} is {weight.dtype}; cast one of them"
        )
    formats = ("NCHW", "NHWC") if rank == 2 else ("NCDHW", "NDHWC")
    if infer.attr("data_format") not in formats:
        raise infer.fail(f"data_format must be {' or '.join(formats)}, got {infer.attr('data_format')!r}")
    last = is_channel_last(infer.attr("data_format"))
    channels = x.shape[-1] if last else x.shape[1]
    sizes = x.shape[1:-1] if last else x.shape[2:]
    wanted = weight.shape[0] if is_transposed else weight.shape[1] * groups
    if channels != wanted:
        raise infer.fail(
            f"Input {x.name!r} of shape {list(x.shape)} has {channels} channels, Filter {weight.name!r} of shape "
            f"{list(weight.shape)} with {groups} groups takes {wanted}"
        )
    check_paddings(infer, rank)
    strides, dilations = infer.attr("strides"), infer.attr("dilations")
    if len(strides) != rank or len(dilations) != rank:
        raise infer.fail(f"strides and dilations must have {rank} numbers each, got {strides} and {dilations}")
    pairs = pairs_of(infer.attr("paddings"), rank)
    if is_same(infer.op):
        pairs = one_for_each_stride(sizes, weight.shape[2:], strides, dilations)
    extra = infer.attr("output_padding") if is_transposed else [0] * rank
    out = []
    for size, kernel, stride, pair, dilation, more in zip(
        sizes, weight.shape[2:], strides, pairs, dilations, extra, strict=True
    ):
        reach = dilation * (kernel - 1) + 1
        if size < 0:
            out.append(-1)
        elif is_transposed:
            out.append((size - 1) * stride - sum(pair) + reach + more)
        else:
            out.append((size + sum(pair) - reach) // stride + 1)
        if size >= 0 and out[-1] < 1:
            raise infer.fail(
                f"Input {x.name!r} of shape {list(x.shape)} is smaller than the filter, {list(weight.shape)}"
            )
    num_filters = weight.shape[1] * groups if is_transposed else weight.shape[0]
    shape = (x.shape[0], *out, num_filters) if last else (x.shape[0], num_filters, *out)
    infer.set("Output", shape, x.dtype)


def _settings(op: Operator) -> tuple[Any, ...]:
    """What aten takes after the weight and the bias; without padding where that is uneven."""
    type = op.type.removesuffix("_grad")
    rank, is_transposed = _RANKS[type], type.endswith("_transpose")
    extra = op.attr("output_padding") if is_transposed else [0] * rank
    pads = even(op, rank) or [0] * rank
    return op.attr("strides"), pads, op.attr("dilations"), is_transposed, extra, op.attr("groups")


def _make(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    settings, rank = _settings(op), _RANKS[op.type]
    kernel = _plain(settings) if even(op, rank) is not None else _uneven(op, settings, rank)
    if not is_channel_last(op.attr("data_format")):
        return kernel
    first, last = _to_first(rank), _to_last(rank)
    return lambda x, weight: kernel(x.permute(first), weight).permute(last)


def _plain(settings: tuple[Any, ...]) -> Kernel:
    return lambda x, weight: torch.convolution(x, weight, None, *settings)


def _uneven(op: Operator, settings: tuple[Any, ...], rank: int) -> Kernel:
    """Zeros come before a convolution, and after a transposed one values go."""
    plain, pairs = _plain(settings), finding(op, rank)
    if op.type.endswith("_transpose"):
        return lambda x, weight: cropped(plain(x, weight), pairs(x, weight.shape[2:]))
    return lambda x, weight: plain(wider(x, pairs(x, weight.shape[2:])), weight)


def _make_gradient(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    type = op.type.removesuffix("_grad")
    settings, rank = _settings(op), _RANKS[type]
    wants_x, wants_weight = bool(op.output("Input@GRAD")), bool(op.output("Filter@GRAD"))
    mask = [wants_x, wants_weight, False]
    is_even, pairs, is_transposed = even(op, rank) is not None, finding(op, rank), type.endswith("_transpose")

    def gradient(x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> Any:
        around = [] if is_even else pairs(x, weight.shape[2:])
        if around and is_transposed:
            grad = wider(grad, around)
        elif around:
            x = wider(x, around)
        of_x, of_weight, _ = _aten.convolution_backward(grad, x, weight, None, *settings, mask)
        if around and wants_x and not is_transposed:
            of_x = cropped(of_x, around)
        return (of_x, of_weight) if wants_x and wants_weight else of_x if wants_x else of_weight

    if not is_channel_last(op.attr("data_format")):
        return gradient
    first, last = _to_first(rank), _to_last(rank)

    def gradient_of_last(x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> Any:
        found = gradient(x.permute(first), weight, grad.permute(first))
        if wants_x and wants_weight:
            return found[0].permute(last), found[1]
        return found.permute(last) if wants_x else found

    return gradient_of_last


for _type, _rank in _RANKS.items():
    _attrs = {
        "strides": [1] * _rank,
        "paddings": [0] * _rank,
        "dilations": [1] * _rank,
        "groups": 1,
        **ATTRS,
        "data_format": "NCHW" if _rank == 2 else "NCDHW",
        **({"output_padding": [0] * _rank} if _type.endswith("_transpose") else {}),
    }
    register(
        _type,
        inputs=("Input", "Filter"),
        outputs=("Output",),
        attrs=_attrs,
        infer=_infer,
        grad=Grad(needs=("Input", "Filter"), wrt=("Input", "Filter")),
    )(_make)
    register_grad(_type, as_autograd=True)(_make_gradient)
