"""Pooling over images: the greatest or the mean of each window."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fleet.static.dtypes import FLOATS
from fleet.static.executor.lowering import Lowering
from fleet.static.operator import Operator
from fleet.static.registry import Grad, Infer, Kernel, register, register_grad

_aten = torch.ops.aten
_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 4)
    if infer.attr("pooling_type") not in ("max", "avg"):
        raise infer.fail(f"pooling_type must be max or avg, got {infer.attr('pooling_type')!r}")
    if infer.has("Mask") and infer.attr("pooling_type") != "max":
        raise infer.fail("output Mask is for pooling_type max only")
    if infer.attr("data_format") not in ("NCHW", "NHWC"):
        raise infer.fail(f"data_format must be NCHW or NHWC, got {infer.attr('data_format')!r}")
    shape, last = infer.shape("X"), infer.attr("data_format") == "NHWC"
    sizes, kernel = shape[1:3] if last else shape[2:], infer.attr("ksize")
    if infer.attr("global_pooling") or infer.attr("adaptive"):
        out = [1, 1] if infer.attr("global_pooling") else list(kernel)
    else:
        strides, paddings = infer.attr("strides"), infer.attr("paddings")
        out = [
            _size(infer, size, side, step, pad)
            for size, side, step, pad in zip(sizes, kernel, strides, paddings, strict=True)
        ]
    made = (shape[0], *out, shape[3]) if last else (*shape[:2], *out)
    infer.set("Out", made, infer.dtype("X"))
    infer.set("Mask", (shape[0], made[-1], *out) if last else made, "int64")


def _size(infer: Infer, size: int, side: int, step: int, pad: int) -> int:
    if side < 1 or step < 1 or not 0 <= pad <= side // 2:
        raise infer.fail(
            f"windows must be >= 1, strides >= 1, paddings from 0 to half a window, got {side}, {step}, {pad}"
        )
    if size < 0:
        return -1
    room = size + 2 * pad - side
    if room < 0:
        raise infer.fail(f"X of shape {list(infer.shape('X'))} is smaller than a window of {infer.attr('ksize')}")
    count = (-(-room // step) if infer.attr("ceil_mode") else room // step) + 1
    return count - 1 if infer.attr("ceil_mode") and (count - 1) * step >= size + pad else count


class _Windows:
    """The settings of one operator."""

    def __init__(self, op: Operator) -> None:
        self.is_max = op.attr("pooling_type") == "max"
        self.is_global = bool(op.attr("global_pooling"))
        self.is_adaptive = self.is_global or bool(op.attr("adaptive"))
        self.sides = [1, 1] if self.is_global else list(op.attr("ksize"))
        self.steps, self.pads = list(op.attr("strides")), list(op.attr("paddings"))
        self.ceil = bool(op.attr("ceil_mode"))
        self.is_last = op.attr("data_format") == "NHWC"
        exclusive = bool(op.attr("exclusive"))
        self.counted = (not exclusive, None if exclusive else self.sides[0] * self.sides[1])
        """What avg_pool2d takes for padding: that it is not counted, or that every window is whole."""


@register(
    "pool2d",
    inputs=("X",),
    outputs=("Out", "Mask?"),
    attrs={
        "pooling_type": "max",
        "ksize": [1, 1],
        "strides": [1, 1],
        "paddings": [0, 0],
        "global_pooling": False,
        "ceil_mode": False,
        "exclusive": True,
        "adaptive": False,
        "data_format": "NCHW",
    },
    infer=_infer,
    grad=Grad(needs=("X", "Mask"), wrt=("X",), outs=("Out",)),
)
def _pool2d(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    windows = _Windows(op)
    kernel = _max(windows, bool(op.output("Mask"))) if windows.is_max else _avg(windows)
    if not windows.is_last:
        return kernel

    def last(x: torch.Tensor) -> Any:
        found = kernel(x.permute(_FIRST))
        return (found[0].permute(_LAST), found[1]) if isinstance(found, tuple) else found.permute(_LAST)

    return last


def _max(windows: _Windows, wants_mask: bool) -> Kernel:
    sides, steps, pads, ceil = windows.sides, windows.steps, windows.pads, windows.ceil

    def pooled(x: torch.Tensor) -> Any:
        if windows.is_adaptive:
            return _aten.adaptive_max_pool2d(x, sides)
        return _aten.max_pool2d_with_indices(x, sides, steps, pads, [1, 1], ceil)

    return pooled if wants_mask else lambda x: pooled(x)[0]


def _avg(windows: _Windows) -> Kernel:
    sides, steps, pads, ceil, counted = windows.sides, windows.steps, windows.pads, windows.ceil, windows.counted
    if windows.is_global:
        return lambda x: x.mean((2, 3), keepdim=True)
    if windows.is_adaptive:
        return lambda x: _aten._adaptive_avg_pool2d(x, sides)
    return lambda x: functional.avg_pool2d(x, sides, steps, pads, ceil, *counted)


@register_grad("pool2d", as_autograd=True)
def _pool2d_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    windows = _Windows(op)
    kernel = _max_grad(windows, bool(op.input("Mask"))) if windows.is_max else _avg_grad(windows)
    if not windows.is_last:
        return kernel
    return lambda x, *more: kernel(x.permute(_FIRST), *more[:-1], more[-1].permute(_FIRST)).permute(_LAST)


def _max_grad(windows: _Windows, has_mask: bool) -> Kernel:
    sides, steps, pads, ceil = windows.sides, windows.steps, windows.pads, windows.ceil

    def gradient(x: torch.Tensor, mask: torch.Tensor, grad: torch.Tensor) -> Any:
        if windows.is_adaptive:
            return _aten.adaptive_max_pool2d_backward(grad, x, mask)
        return _aten.max_pool2d_with_indices_backward(grad, x, sides, steps, pads, [1, 1], ceil, mask)

    again = _max(windows, True)
    return gradient if has_mask else lambda x, grad: gradient(x, again(x)[1], grad)


def _avg_grad(windows: _Windows) -> Kernel:
    sides, steps, pads, ceil, counted = windows.sides, windows.steps, windows.pads, windows.ceil, windows.counted
    if windows.is_global:
        return lambda x, grad: (grad / (x.shape[2] * x.shape[3])).expand_as(x)
    if windows.is_adaptive:
        return lambda x, grad: _aten._adaptive_avg_pool2d_backward(grad, x)
    return lambda x, grad: _aten.avg_pool2d_backward(grad, x, sides, steps, pads, ceil, *counted)
