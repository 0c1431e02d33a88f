"""Pooling over images and volumes: the greatest or the mean of each window."""

from __future__ import annotations

from math import inf, prod
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
    written,
)

_RANKS = {"pool2d": 2, "pool3d": 3}
_FORMATS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _aten(name: str, rank: int) -> Any:
    return getattr(torch.ops.aten, name.format(rank))


def _infer(infer: Infer) -> None:
    rank = _RANKS[infer.op.type]
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", rank + 2)
    if infer.attr("pooling_type") not in ("max", "avg"):
        raise infer.fail(f"pooling_type must be max or avg, got {infer.attr('pooling_type')!r}")
    if infer.has("Mask") and infer.attr("pooling_type") != "max":
        raise infer.fail("output Mask is for pooling_type max only")
    if infer.attr("data_format") not in _FORMATS[rank]:
        raise infer.fail(f"data_format must be {' or '.join(_FORMATS[rank])}, got {infer.attr('data_format')!r}")
    shape, last = infer.shape("X"), infer.attr("data_format").endswith("C")
    sizes, kernel = shape[1:-1] if last else shape[2:], infer.attr("ksize")
    if infer.attr("global_pooling") or infer.attr("adaptive"):
        out = [1] * rank if infer.attr("global_pooling") else list(kernel)
    else:
        check_paddings(infer, rank)
        strides, pairs = infer.attr("strides"), pairs_of(infer.attr("paddings"), rank)
        if is_same(infer.op):
            pairs = one_for_each_stride(sizes, kernel, strides, [1] * rank)
        is_one = _can_pad(pairs, kernel)
        out = [
            _size(infer, size, side, step, pair, is_one)
            for size, side, step, pair in zip(sizes, kernel, strides, pairs, strict=True)
        ]
    made = (shape[0], *out, shape[-1]) if last else (*shape[:2], *out)
    infer.set("Out", made, infer.dtype("X"))
    infer.set("Mask", (shape[0], made[-1], *out) if last else made, "int64")


def _can_pad(pairs: list[tuple[int, int]], kernel: list[int]) -> bool:
    """Whether torch's pools can do the padding: even, and half a window at most."""
    return all(before == after <= side // 2 for (before, after), side in zip(pairs, kernel, strict=True))


def _size(infer: Infer, size: int, side: int, step: int, pair: tuple[int, int], is_one: bool) -> int:
    if side < 1 or step < 1 or not all(0 <= pad < side for pad in pair):
        raise infer.fail(
            "windows must be >= 1, strides >= 1, paddings from 0 to less than a window, got "
            f"{side}, {step}, {written([pair])}"
        )
    if size < 0:
        return -1
    room = size + sum(pair) - side
    if room < 0:
        raise infer.fail(f"X of shape {list(infer.shape('X'))} is smaller than a window of {infer.attr('ksize')}")
    count = (-(-room // step) if infer.attr("ceil_mode") else room // step) + 1
    end = size + pair[0] + (0 if is_one else pair[1])  # where windows begin that hold padding alone
    return count - 1 if infer.attr("ceil_mode") and (count - 1) * step >= end else count


class _Windows:
    """The settings of one operator."""

    def __init__(self, op: Operator) -> None:
        type = op.type.removesuffix("_grad")
        self.rank = rank = _RANKS[type]
        self.is_max = op.attr("pooling_type") == "max"
        self.is_global = bool(op.attr("global_pooling"))
        self.is_adaptive = self.is_global or bool(op.attr("adaptive"))
        self.sides = [1] * rank if self.is_global else list(op.attr("ksize"))
        self.steps, self.ceil = list(op.attr("strides")), bool(op.attr("ceil_mode"))
        self.is_last = op.attr("data_format").endswith("C")
        self.first = (0, rank + 1, *range(1, rank + 1))
        self.last = (0, *range(2, rank + 2), 1)
        self.exclusive = bool(op.attr("exclusive"))
        self.counted = (not self.exclusive, None if self.exclusive else prod(self.sides))
        """What avg_pool takes for padding: that it is not counted, or that every window is whole."""
        pads = even(op, rank)
        can_pad = pads is not None and _can_pad([(one, one) for one in pads], self.sides)
        self.pads = [0] * rank if pads is None or not can_pad else pads
        self.pairs = None if self.is_adaptive or can_pad else finding(op, rank)
        """What comes around the image before torch's pools see it, where they cannot do that."""


_ATTRS = {"pooling_type": "max", "global_pooling": False, "ceil_mode": False, "exclusive": True, "adaptive": False}


def _pool(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    windows = _Windows(op)
    kernel = _max(windows, bool(op.output("Mask"))) if windows.is_max else _avg(windows)
    if not windows.is_last:
        return kernel

    def last(x: torch.Tensor) -> Any:
        found = kernel(x.permute(windows.first))
        if isinstance(found, tuple):
            return found[0].permute(windows.last), found[1]
        return found.permute(windows.last)

    return last


def _max(windows: _Windows, wants_mask: bool) -> Kernel:
    rank, sides = windows.rank, windows.sides
    if windows.is_adaptive:
        adaptive = _aten("adaptive_max_pool{}d", rank)
        return (lambda x: adaptive(x, sides)) if wants_mask else lambda x: adaptive(x, sides)[0]
    pool, settings = _aten("max_pool{}d_with_indices", rank), _max_settings(windows)

    def pooled(x: torch.Tensor) -> Any:
        return pool(x if windows.pairs is None else wider(x, windows.pairs(x, sides), -inf), *settings)

    return pooled if wants_mask else lambda x: pooled(x)[0]


def _max_settings(windows: _Windows) -> tuple[Any, ...]:
    return windows.sides, windows.steps, windows.pads, [1] * windows.rank, windows.ceil


def _avg(windows: _Windows) -> Kernel:
    rank, sides = windows.rank, windows.sides
    if windows.is_global:
        places = tuple(range(2, rank + 2))
        return lambda x: x.mean(places, keepdim=True)
    if windows.is_adaptive:
        adaptive = _aten("_adaptive_avg_pool{}d", rank)
        return lambda x: adaptive(x, sides)
    pool, around = _aten("avg_pool{}d", rank), (sides, windows.steps, windows.pads, windows.ceil)
    if windows.pairs is None:
        return lambda x: pool(x, *around, *windows.counted)

    def uneven(x: torch.Tensor) -> torch.Tensor:
        assert windows.pairs is not None
        made: torch.Tensor = pool(wider(x, windows.pairs(x, sides)), *around, True, prod(sides))
        return made / _shares(windows, x) if windows.exclusive else made

    return uneven


def _shares(windows: _Windows, x: torch.Tensor) -> torch.Tensor:
    """How much of each window is image."""
    assert windows.pairs is not None
    ones = wider(torch.ones_like(x[:1, :1]), windows.pairs(x, windows.sides))
    settings = (windows.sides, windows.steps, windows.pads, windows.ceil, True, prod(windows.sides))
    found: torch.Tensor = _aten("avg_pool{}d", windows.rank)(ones, *settings)
    return found


def _gradient(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    windows = _Windows(op)
    kernel = _max_grad(windows, bool(op.input("Mask"))) if windows.is_max else _avg_grad(windows)
    if not windows.is_last:
        return kernel
    first, last = windows.first, windows.last
    return lambda x, *more: kernel(x.permute(first), *more[:-1], more[-1].permute(first)).permute(last)


def _max_grad(windows: _Windows, has_mask: bool) -> Kernel:
    rank, settings = windows.rank, _max_settings(windows)
    of_adaptive = _aten("adaptive_max_pool{}d_backward", rank)
    of_windows = _aten("max_pool{}d_with_indices_backward", rank)

    def gradient(x: torch.Tensor, mask: torch.Tensor, grad: torch.Tensor) -> Any:
        if windows.is_adaptive:
            return of_adaptive(grad, x, mask)
        if windows.pairs is None:
            return of_windows(grad, x, *settings, mask)
        pairs = windows.pairs(x, windows.sides)
        return cropped(of_windows(grad, wider(x, pairs, -inf), *settings, mask), pairs)

    again = _max(windows, True)
    return gradient if has_mask else lambda x, grad: gradient(x, again(x)[1], grad)


def _avg_grad(windows: _Windows) -> Kernel:
    rank, sides = windows.rank, windows.sides
    if windows.is_global:
        return lambda x, grad: (grad / prod(x.shape[2:])).expand_as(x)
    if windows.is_adaptive:
        adaptive = _aten("_adaptive_avg_pool{}d_backward", rank)
        return lambda x, grad: adaptive(grad, x)
    back, around = _aten("avg_pool{}d_backward", rank), (sides, windows.steps, windows.pads, windows.ceil)
    if windows.pairs is None:
        return lambda x, grad: back(grad, x, *around, *windows.counted)

    def uneven(x: torch.Tensor, grad: torch.Tensor) -> Any:
        assert windows.pairs is not None
        pairs = windows.pairs(x, sides)
        share = grad / _shares(windows, x) if windows.exclusive else grad
        return cropped(back(share, wider(x, pairs), *around, True, prod(sides)), pairs)

    return uneven


for _type, _rank in _RANKS.items():
    register(
        _type,
        inputs=("X",),
        outputs=("Out", "Mask?"),
        attrs={
            **_ATTRS,
            "ksize": [1] * _rank,
            "strides": [1] * _rank,
            "paddings": [0] * _rank,
            **ATTRS,
            "data_format": _FORMATS[_rank][0],
        },
        infer=_infer,
        grad=Grad(needs=("X", "Mask"), wrt=("X",), outs=("Out",)),
    )(_pool)
    register_grad(_type, as_autograd=True)(_gradient)
