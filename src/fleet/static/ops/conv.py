"""Convolutions over images and volumes, and the transposed ones."""

from __future__ import annotations

from typing import Any

import torch

from fleet.static.dtypes import FLOATS
from fleet.static.executor.lowering import Lowering
from fleet.static.operator import Operator
from fleet.static.registry import Grad, Infer, Kernel, register, register_grad

_aten = torch.ops.aten
_RANKS = {"conv2d": 2, "conv3d": 3, "conv2d_transpose": 2}


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
    lists = [infer.attr(name) for name in ("strides", "paddings", "dilations")]
    if any(len(values) != rank for values in lists):
        raise infer.fail(f"strides, paddings and dilations must have {rank} numbers each, got {lists}")
    extra = infer.attr("output_padding") if is_transposed else [0] * rank
    out = []
    for size, kernel, stride, padding, dilation, more in zip(sizes, weight.shape[2:], *lists, extra, strict=True):
        reach = dilation * (kernel - 1) + 1
        if size < 0:
            out.append(-1)
        elif is_transposed:
            out.append((size - 1) * stride - 2 * padding + reach + more)
        else:
            out.append((size + 2 * padding - reach) // stride + 1)
        if size >= 0 and out[-1] < 1:
            raise infer.fail(
                f"Input {x.name!r} of shape {list(x.shape)} is smaller than the filter, {list(weight.shape)}"
            )
    num_filters = weight.shape[1] * groups if is_transposed else weight.shape[0]
    shape = (x.shape[0], *out, num_filters) if last else (x.shape[0], num_filters, *out)
    infer.set("Output", shape, x.dtype)


def _settings(op: Operator) -> tuple[Any, ...]:
    """What aten takes after the weight and the bias."""
    type = op.type.removesuffix("_grad")
    is_transposed = type.endswith("_transpose")
    extra = op.attr("output_padding") if is_transposed else [0] * _RANKS[type]
    return op.attr("strides"), op.attr("paddings"), op.attr("dilations"), is_transposed, extra, op.attr("groups")


def _make(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    settings, rank = _settings(op), _RANKS[op.type]
    if not is_channel_last(op.attr("data_format")):
        return lambda x, weight: torch.convolution(x, weight, None, *settings)
    first, last = _to_first(rank), _to_last(rank)
    return lambda x, weight: torch.convolution(x.permute(first), weight, None, *settings).permute(last)


def _make_gradient(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    settings, rank = _settings(op), _RANKS[op.type.removesuffix("_grad")]
    wants_x, wants_weight = bool(op.output("Input@GRAD")), bool(op.output("Filter@GRAD"))
    mask = [wants_x, wants_weight, False]

    def gradient(x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> Any:
        of_x, of_weight, _ = _aten.convolution_backward(grad, x, weight, None, *settings, mask)
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
