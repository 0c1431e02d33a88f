"""Operators over the rows of a ragged batch that keep it ragged: softmax, reverse, convolution, expand, concat."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.programs.ops.ragged.belonging import offsets_of, owners, places
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.segments import bag_sum, lengths, require_offsets


def _infer_softmax(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    require_offsets(infer)
    x = infer.var("X")
    if x.shape[1:] not in ((), (1,)):
        raise infer.fail(f"X {x.name!r} must have one number for each value, got shape {list(x.shape)}")
    infer.like("Out", "X")


@register(
    "sequence_softmax",
    inputs=("X", "Offsets"),
    infer=_infer_softmax,
    grad=Grad(needs=("Out", "Offsets")),
    calls=Calls("Shares that sum to 1 within each row.", "sequence_softmax(input, use_cudnn=False, name)"),
)
def _sequence_softmax(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def softmax(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        flat, owner = x.reshape(-1), owners(offsets, len(x))
        tops = flat.new_full((len(offsets) - 1,), -torch.inf).scatter_reduce_(0, owner, flat, "amax")
        powers = (flat - tops.index_select(0, owner)).exp_()
        totals = bag_sum(powers.view(-1, 1), offsets).view(-1)
        return powers.div_(totals.index_select(0, owner)).view(x.shape)

    return softmax


@register_grad("sequence_softmax")
def _sequence_softmax_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def gradient(out: torch.Tensor, offsets: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        weighed = out * grad
        totals = bag_sum(weighed.view(len(out), -1), offsets)
        return weighed - out * totals.index_select(0, owners(offsets, len(out))).view(out.shape)

    return gradient


def _infer_reverse(infer: Infer) -> None:
    require_offsets(infer)
    infer.like("Y", "X")


def _reversed(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    owner = owners(offsets, len(x))
    mirror = (offsets[:-1] + offsets[1:] - 1).index_select(0, owner)
    return x.index_select(0, mirror - torch.arange(len(x), device=x.device))


@register(
    "sequence_reverse",
    inputs=("X", "Offsets"),
    outputs=("Y",),
    infer=_infer_reverse,
    grad=Grad(needs=("Offsets",)),
    calls=Calls("Each row from its end to its beginning.", "sequence_reverse(x, name)"),
)
def _sequence_reverse(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return _reversed


@register_grad("sequence_reverse")
def _sequence_reverse_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda offsets, grad: _reversed(grad, offsets)


def _infer_conv(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 2)
    infer.require_rank("Filter", 2)
    require_offsets(infer)
    x, weight, taps = infer.var("X"), infer.var("Filter"), infer.attr("contextLength")
    if taps < 1 or weight.shape[0] != taps * x.shape[1]:
        raise infer.fail(
            f"Filter {weight.name!r} must have {taps} x {x.shape[1]} rows for X of shape {list(x.shape)}, "
            f"got shape {list(weight.shape)}"
        )
    if infer.attr("contextStride") != 1:
        raise infer.fail(f"contextStride must be 1, got {infer.attr('contextStride')}")
    infer.set("Out", (x.shape[0], weight.shape[1]), x.dtype, lod=x.lod)


@register(
    "sequence_conv",
    inputs=("X", "Filter", "Offsets"),
    attrs={"contextLength": 3, "contextStart": -1, "contextStride": 1},
    infer=_infer_conv,
    grad=Grad(needs=("X", "Filter", "Offsets"), wrt=("X", "Filter")),
)
def _sequence_conv(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    begin = op.attr("contextStart")
    shifts = range(begin, begin + op.attr("contextLength"))

    def conv(x: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        owner = owners(offsets, len(x))
        first, last = offsets[:-1].index_select(0, owner), offsets[1:].index_select(0, owner)
        here = torch.arange(len(x), device=x.device)
        columns = []
        for shift in shifts:
            there = here + shift
            inside = (there >= first) & (there < last)
            columns.append(x.index_select(0, torch.where(inside, there, here)) * inside.unsqueeze(1))
        return torch.cat(columns, 1).mm(weight)

    return conv


def _infer_expand(infer: Infer) -> None:
    require_offsets(infer)
    x, y = infer.var("X"), infer.var("Y")
    if infer.has("XOffsets"):
        require_offsets(infer, "XOffsets")
        infer.set("OutOffsets", (-1,), "int64")
        infer.set("Out", (-1, *x.shape[1:]), x.dtype, lod=infer.op.output("OutOffsets")[0])
    else:
        infer.set("Out", (y.shape[0], *x.shape[1:]), x.dtype, lod=y.lod)


@register(
    "sequence_expand",
    inputs=("X", "Y", "Offsets", "XOffsets?"),
    outputs=("Out", "OutOffsets?"),
    infer=_infer_expand,
    grad=Grad(needs=("X", "Y", "Offsets", "XOffsets"), outs=("Out",)),
)
def _sequence_expand(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    if not op.input("XOffsets"):
        return lambda x, y, offsets: x.index_select(0, owners(offsets, len(y)))

    def expand(x: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor, x_offsets: torch.Tensor) -> Any:
        rows = owners(offsets, len(y))
        made = offsets_of(lengths(x_offsets).index_select(0, rows))
        owner = torch.repeat_interleave(made.diff())
        return x.index_select(0, x_offsets.index_select(0, rows.index_select(0, owner)) + places(made, owner)), made

    return expand


def _infer_concat(infer: Infer) -> None:
    first = infer.var("X")
    if len(infer.vars("X")) != len(infer.vars("Offsets")):
        raise infer.fail("there must be Offsets for each X")
    for other in infer.vars("X"):
        if other.shape[1:] != first.shape[1:] or other.dtype != first.dtype:
            raise infer.fail(
                f"X must be alike, got {first.name!r} {first.dtype} {list(first.shape)} and {other.name!r} "
                f"{other.dtype} {list(other.shape)}"
            )
    infer.set("OutOffsets", (-1,), "int64")
    infer.set("Out", (-1, *first.shape[1:]), first.dtype, lod=infer.op.output("OutOffsets")[0])


@register(
    "sequence_concat",
    inputs=("X*", "Offsets*"),
    outputs=("Out", "OutOffsets"),
    infer=_infer_concat,
    grad=Grad(needs=("X", "Offsets"), outs=("Out",)),
)
def _sequence_concat(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    count = len(op.input("X"))

    def concat(*given: torch.Tensor) -> Any:
        values, offsets = given[:count], given[count:]
        made = torch.stack(offsets).sum(0)
        begins = made[:-1].clone()
        targets = []
        for value, own in zip(values, offsets, strict=True):
            owner = owners(own, len(value))
            targets.append(begins.index_select(0, owner) + places(own, owner))
            begins += lengths(own)
        whole = torch.cat(values)
        return torch.empty_like(whole).index_copy(0, torch.cat(targets), whole), made

    return concat
