"""Operators over two variables, or over places in one: products of pairs, values added at places, a look ahead."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fleet_paddle.programs.ops.ragged.belonging import owners
from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared, same_dtype
from fleet_programs.operators.common.segments import require_offsets


def _infer_bilinear(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    for slot, rank in (("X", 2), ("Y", 2), ("Weight", 3)):
        infer.require_rank(slot, rank)
    x, y, weight = infer.var("X"), infer.var("Y"), infer.shape("Weight")
    if weight[1:] != (x.shape[1], y.shape[1]) or (infer.has("Bias") and infer.shape("Bias") != (1, weight[0])):
        raise infer.fail(f"Weight must be [size, {x.shape[1]}, {y.shape[1]}] and Bias [1, size], got {list(weight)}")
    infer.set("Out", (x.shape[0], weight[0]), x.dtype)


@register(
    "bilinear_tensor_product",
    inputs=("X", "Y", "Weight", "Bias?"),
    infer=_infer_bilinear,
    grad=Grad(needs=("X", "Y", "Weight", "Bias"), wrt=("X", "Y", "Weight", "Bias")),
)
def _bilinear(op: Operator, lowering: Lowering) -> Kernel:
    def product(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        return functional.bilinear(x, y, weight, bias[0].view(-1) if bias else None)

    return compared(product, op, lowering, "X", "Y", num_dims=1)


def _infer_scatter(infer: Infer) -> None:
    x, index, updates = infer.var("X"), infer.var("Index"), infer.var("Updates")
    infer.require_dtype("Index", INTEGERS)
    same_dtype(infer, "X", "Updates")
    depth = index.shape[-1] if index.shape else -1
    if not 1 <= depth <= x.ndim or not may_equal(updates.shape, (*index.shape[:-1], *x.shape[depth:])):
        raise infer.fail(
            f"Updates {updates.name!r} of shape {list(updates.shape)} do not fit Index {index.name!r} of "
            f"{list(index.shape)} in X {x.name!r} of {list(x.shape)}"
        )
    infer.like("Out", "X")


@register(
    "scatter_nd_add",
    inputs=("X", "Index", "Updates"),
    infer=_infer_scatter,
    grad=Grad(needs=("X", "Index", "Updates"), wrt=("X", "Updates")),
    calls=Calls(
        "`ref` with `updates` added at places; the last dimension of `index` counts along its first dimensions.",
        "scatter_nd_add(ref, index, updates, name)",
    ),
)
def _scatter_nd_add(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x, index, updates: x.index_put(index.long().unbind(-1), updates, accumulate=True)


def _infer_pad_like(infer: Infer) -> None:
    x, y = infer.var("X"), infer.var("Y")
    same_dtype(infer, "X", "Y")
    if x.ndim != y.ndim or any(-1 not in (a, b) and a < b for a, b in zip(x.shape, y.shape, strict=True)):
        raise infer.fail(f"Y {y.name!r} of shape {list(y.shape)} is larger than X {x.name!r} of {list(x.shape)}")
    infer.set("Out", x.shape, x.dtype)


@register(
    "pad_constant_like",
    inputs=("X", "Y"),
    attrs={"pad_value": 0.0},
    infer=_infer_pad_like,
    grad=Grad(needs=("X", "Y"), wrt=("Y",)),
    calls=Calls(
        "`y` with `pad_value` after it in each dimension, as large as `x`.",
        "pad_constant_like(x, y, pad_value=0.0, name)",
    ),
)
def _pad_constant_like(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    value = op.attr("pad_value")

    def pad(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        more = [(0, a - b) for a, b in zip(x.shape, y.shape, strict=True)]
        return functional.pad(y, [one for pair in reversed(more) for one in pair], value=value)

    return pad


def _infer_row_conv(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 2)
    infer.require_rank("Filter", 2)
    require_offsets(infer)
    if infer.shape("Filter")[1] != infer.shape("X")[1]:
        raise infer.fail(f"Filter must be [values ahead, {infer.shape('X')[1]}], got {list(infer.shape('Filter'))}")
    infer.like("Out", "X")


@register(
    "row_conv",
    inputs=("X", "Filter", "Offsets"),
    infer=_infer_row_conv,
    grad=Grad(needs=("X", "Filter", "Offsets"), wrt=("X", "Filter")),
)
def _row_conv(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Each value is the sum of itself and of those after it in its row, column by column times a weight."""

    def ahead(x: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        last = offsets[1:].index_select(0, owners(offsets, len(x)))
        here = torch.arange(len(x), device=x.device)
        total = x * weight[0]
        for shift in range(1, len(weight)):
            there = here + shift
            inside = there < last
            total = total + x.index_select(0, torch.where(inside, there, here)) * inside.unsqueeze(1) * weight[shift]
        return total

    return ahead


def _infer_filter(infer: Infer) -> None:
    for slot in ("Ins_tag", "Filter_tag"):
        infer.require_dtype(slot, INTEGERS)
    require_offsets(infer, "TagOffsets")
    ins = infer.var("Ins")
    if infer.has("Offsets"):
        require_offsets(infer)
        infer.set("OutOffsets", (-1,), "int64")
        infer.set("Out", (-1, *ins.shape[1:]), ins.dtype, lod=infer.op.output("OutOffsets")[0])
    else:
        infer.set("Out", (-1, *ins.shape[1:]), ins.dtype)
    infer.set("LossWeight", (-1, 1), "float32")
    infer.set("Index", (-1,), "int64")


@register(
    "filter_by_instag",
    inputs=("Ins", "Ins_tag", "Filter_tag", "TagOffsets", "Offsets?"),
    outputs=("Out", "LossWeight", "Index", "OutOffsets?"),
    attrs={"out_val_if_empty": 0.0},
    infer=_infer_filter,
    grad=Grad(needs=("Ins", "Ins_tag", "Filter_tag", "TagOffsets", "Offsets"), wrt=("Ins",), outs=("Out",)),
)
def _filter_by_instag(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Rows one of whose tags is wanted; if there is none, one value for each that weighs nothing."""
    empty = op.attr("out_val_if_empty")

    def kept(
        ins: torch.Tensor, tags: torch.Tensor, wanted: torch.Tensor, ends: torch.Tensor, *offsets: torch.Tensor
    ) -> Any:
        hits = torch.isin(tags.reshape(-1), wanted.reshape(-1))
        rows = torch.zeros(len(ends) - 1, dtype=torch.bool, device=ins.device)
        rows[owners(ends, len(hits))[hits]] = True
        begins = offsets[0] if offsets else torch.arange(len(rows) + 1, device=ins.device)
        place = rows.nonzero().squeeze(1)
        values = rows[owners(begins, len(ins))]
        sizes = begins.diff()[place]
        if not len(place):
            made = ins.new_full((1, *ins.shape[1:]), empty) + ins[:0].sum()  # autograd wants to see Ins
            place, sizes = torch.zeros(1, dtype=torch.int64, device=ins.device), torch.ones_like(ends[:1])
            weights = torch.zeros(1, 1, device=ins.device)
        else:
            made, weights = ins[values], torch.ones(int(sizes.sum()), 1, device=ins.device)
        if not offsets:
            return made, weights, place
        return made, weights, place, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])

    return kept
