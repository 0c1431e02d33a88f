"""Pieces of images: windows as the values of ragged rows, and a piece of each at a random place."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.nn import functional

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor


def _places(infer: Infer) -> list[int]:
    """How many windows there are along height and width; -1 where an image's size is not known."""
    around, found = infer.attr("paddings"), []
    for axis, size in enumerate(infer.shape("X")[2:]):
        left = size + around[axis] + around[axis + 2] - infer.attr("kernels")[axis]
        if size >= 0 and left < 0:
            raise infer.fail(f"a window of {list(infer.attr('kernels'))} is larger than X {list(infer.shape('X'))}")
        found.append(-1 if size < 0 else left // infer.attr("strides")[axis] + 1)
    return found


def _infer_windows(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 4)
    _places(infer)
    infer.set("OutOffsets", (-1,), "int64")
    columns = infer.shape("X")[1] * prod(infer.attr("kernels"))
    infer.set("Out", (-1, columns), infer.dtype("X"), lod=infer.op.output("OutOffsets")[0])


@register(
    "im2sequence",
    inputs=("X",),
    outputs=("Out", "OutOffsets"),
    attrs={"kernels": [1, 1], "strides": [1, 1], "paddings": [0, 0, 0, 0]},
    infer=_infer_windows,
    grad=Grad(needs=("X",), outs=("Out",)),
)
def _im2sequence(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    kernels, strides, (up, left, down, right) = (op.attr(name) for name in ("kernels", "strides", "paddings"))

    def windows(x: T) -> Any:
        found = functional.unfold(functional.pad(x, (left, right, up, down)), tuple(kernels), stride=tuple(strides))
        count = found.shape[2]
        return found.transpose(1, 2).reshape(-1, found.shape[1]), torch.arange(len(x) + 1, device=x.device) * count

    return windows


@register_grad("im2sequence")
def _im2sequence_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    kernels, strides, (up, left, down, right) = (op.attr(name) for name in ("kernels", "strides", "paddings"))

    def gradient(x: T, grad: T) -> T:
        columns = grad.view(len(x), -1, grad.shape[1]).transpose(1, 2)
        height, width = x.shape[2] + up + down, x.shape[3] + left + right
        whole = functional.fold(columns, (height, width), tuple(kernels), stride=tuple(strides))
        return whole[:, :, up : height - down, left : width - right]

    return gradient


def _infer_crop(infer: Infer) -> None:
    shape, wanted = infer.shape("X"), tuple(infer.attr("shape"))
    whole = shape[len(shape) - len(wanted) :]
    if not 0 < len(wanted) < len(shape) or any(0 <= size < one for size, one in zip(whole, wanted, strict=True)):
        raise infer.fail(f"shape must be that of a piece of each entry of X {list(shape)}, got {list(wanted)}")
    infer.set("Out", (*shape[: len(shape) - len(wanted)], *wanted), infer.dtype("X"))


@register("random_crop", inputs=("X",), attrs={"shape": [1]}, infer=_infer_crop, is_random=True)
def _random_crop(op: Operator, lowering: Lowering) -> Kernel:
    sizes, generator = op.attr("shape"), lowering.generator

    def crop(x: T) -> T:
        lead = x.shape[: x.dim() - len(sizes)]
        piece = x.reshape(-1, *x.shape[len(lead) :])
        for axis, size in enumerate(sizes, 1):
            spare = piece.shape[axis] - size + 1
            begin = torch.randint(spare, (len(piece), 1), generator=generator, device=x.device)
            chosen = begin + torch.arange(size, device=x.device)
            view = [len(piece), *(size if one == axis else 1 for one in range(1, piece.dim()))]
            piece = torch.take_along_dim(piece, chosen.view(view), axis)
        return piece.reshape(*lead, *sizes)

    return crop
