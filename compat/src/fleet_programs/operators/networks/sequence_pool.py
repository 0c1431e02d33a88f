"""`sequence_pool`: one value for each row of a ragged batch, such as the mean of its words."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.segments import bag_sum, lengths, require_offsets

_aten = torch.ops.aten
SUMS = ("SUM", "AVERAGE", "SQRT")
ENDS = ("FIRST", "LAST")
EXTREMES = ("MAX", "MIN")
KINDS = (*SUMS, *EXTREMES, *ENDS)
_MAX_MODE = 2


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    require_offsets(infer)
    x, kind = infer.var("X"), infer.attr("pooltype")
    if kind not in KINDS:
        raise infer.fail(f"pooltype must be one of {', '.join(KINDS)}, got {kind!r}")
    if x.ndim < 2:
        raise infer.fail(f"X {x.name!r} must have at least 2 dimensions, got shape {list(x.shape)}")
    if infer.has("MaxIndex") != (kind in EXTREMES):
        raise infer.fail(f"output MaxIndex is for {' and '.join(EXTREMES)}, and only for them; pooltype is {kind}")
    infer.set("Out", (-1, *x.shape[1:]), x.dtype)
    infer.set("MaxIndex", (-1, *x.shape[1:]), "int64")
    infer.set("Count", (-1, 0), x.dtype)


@register(
    "sequence_pool",
    inputs=("X", "Offsets"),
    outputs=("Out", "MaxIndex?", "Count"),
    attrs={"pooltype": "AVERAGE", "pad_value": 0.0, "is_test": False},
    infer=_infer,
    grad=Grad(needs=("Offsets", "MaxIndex", "Count"), outs=("Out",)),
)
def _sequence_pool(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    kind, pad = op.attr("pooltype"), op.attr("pad_value")

    def pool(x: torch.Tensor, offsets: torch.Tensor) -> Any:
        out, index = _pooled(kind, x, offsets)
        if pad != 0.0:
            out = out.masked_fill(_over(lengths(offsets), out) == 0, pad)
        # The gradient needs to know how many values there were, and nothing else of X.
        count = x.new_empty((len(x), 0))
        return (out, count) if index is None else (out, index, count)

    return pool


def _pooled(kind: str, x: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The pooled rows, those of empty ones zero, and for MAX and MIN where the values were found."""
    if not len(x):
        zeros = x.new_zeros((len(offsets) - 1, *x.shape[1:]))
        return zeros, torch.zeros_like(zeros, dtype=torch.int64) if kind in EXTREMES else None
    if kind in SUMS:
        return _divided(kind, bag_sum(x, offsets), offsets), None
    if kind in EXTREMES:
        every = torch.arange(len(x), device=x.device)
        flat = x.reshape(len(x), -1)
        given = flat if kind == "MAX" else -flat
        out, _, _, index = _aten._embedding_bag(given, every, offsets, False, _MAX_MODE, False, None, True)
        shape = (len(offsets) - 1, *x.shape[1:])
        return (out if kind == "MAX" else out.neg_()).view(shape), index.view(shape)
    out = x.index_select(0, _end(kind, offsets, len(x)))
    return out.masked_fill_(_over(lengths(offsets), out) == 0, 0.0), None


def _end(kind: str, offsets: torch.Tensor, count: int) -> torch.Tensor:
    """Where the first or last value of each row is; anywhere for an empty one."""
    return offsets[:-1].clamp(max=count - 1) if kind == "FIRST" else (offsets[1:] - 1).clamp(min=0)


def _divided(kind: str, total: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    if kind == "SUM":
        return total
    sizes = _over(lengths(offsets).clamp(min=1), total).to(total.dtype)
    return total / (sizes if kind == "AVERAGE" else sizes.sqrt())


def _over(sizes: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """One number for each row, ready to meet all of its values."""
    return sizes.view(-1, *[1] * (rows.ndim - 1))


@register_grad("sequence_pool")
def _sequence_pool_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    kind = op.attr("pooltype")

    def of_sum(offsets: torch.Tensor, count: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        share = _divided(kind, grad, offsets)
        return torch.repeat_interleave(share, lengths(offsets), 0, output_size=len(count))

    def scattered(index: torch.Tensor, offsets: torch.Tensor, count: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        made = grad.new_zeros((len(count), *grad.shape[1:]))
        if not len(count):
            return made
        real = grad.masked_fill(_over(lengths(offsets), grad) == 0, 0.0)
        return made.scatter_add_(0, index.clamp(min=0), real)

    def of_end(offsets: torch.Tensor, count: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        index = _over(_end(kind, offsets, max(len(count), 1)), grad).expand_as(grad)
        return scattered(index, offsets, count, grad)

    if kind in SUMS:
        return of_sum
    if kind in ENDS:
        return of_end
    return lambda offsets, index, count, grad: scattered(index, offsets, count, grad)
