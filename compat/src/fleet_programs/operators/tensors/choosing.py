"""Operators that choose: where, multiplex, every so many elements, values repeated to a shape, distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import always, axis_of, compared, computes, same_dtype, same_shape, view
from fleet_programs.operators.tensors.slicing import cut


def _infer_index(infer: Infer) -> None:
    infer.set("Out", (-1, infer.var("Condition").ndim), "int64")


@register("where_index", inputs=("Condition",), infer=_infer_index)
def _where_index(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return torch.nonzero


def _infer_where(infer: Infer) -> None:
    infer.require_dtype("Condition", frozenset({"bool"}))
    same_dtype(infer, "X", "Y")
    same_shape(infer, "X", "Y")
    same_shape(infer, "X", "Condition")
    infer.like("Out", "X")


_CHOICE = ("Condition", "X", "Y")
register("where", inputs=_CHOICE, infer=_infer_where, grad=Grad(needs=_CHOICE, wrt=("X", "Y")))(
    partial(compared, torch.where)
)


def _infer_multiplex(infer: Infer) -> None:
    first, index = infer.var("X"), infer.var("Ids")
    if len(infer.vars("X")) < 2:
        raise infer.fail("X must hold at least two variables, got 1")
    infer.require_dtype("Ids", INTEGERS)
    if index.shape[1:] not in ((), (1,)):
        raise infer.fail(f"Ids {index.name!r} must have one number for each row, got shape {list(index.shape)}")
    for other in infer.vars("X"):
        if not may_equal(other.shape, first.shape) or other.dtype != first.dtype:
            raise infer.fail(f"X must be alike, got {first.name!r} {list(first.shape)} and {other.name!r}")
    infer.like("Out", "X")


@computes(
    "multiplex",
    _infer_multiplex,
    "multiplex(inputs, index)",
    "multiplex(inputs, index, name)",
    inputs=("X*", "Ids"),
    grad=Grad(needs=("X", "Ids")),
    make=always(lambda *given: _chosen(given[:-1], given[-1])),
)
def _chosen(inputs: Sequence[torch.Tensor], index: torch.Tensor) -> torch.Tensor:
    """Row i of that one which `index[i]` says."""
    places = index.reshape(-1).long()
    return torch.stack(list(inputs))[places, torch.arange(len(places), device=places.device)]


def _infer_strided(infer: Infer) -> None:
    x = infer.var("Input")
    lists = [list(infer.attr(name)) for name in ("axes", "starts", "ends", "strides")]
    if len({len(one) for one in lists}) != 1 or 0 in lists[3]:
        raise infer.fail(f"axes, starts, ends and strides must be as many, and strides not 0, got {lists}")
    shape = list(x.shape)
    for axis, start, end, stride in zip(*lists, strict=True):
        place = axis_of(infer, axis, len(shape), "axes")
        if shape[place] >= 0:
            first, last, step = slice(start, end, stride).indices(shape[place])
            shape[place] = max(0, ceil((last - first) / step))
            if not shape[place]:
                raise infer.fail(f"nothing of Input {x.name!r} lies in {start}:{end}:{stride} of axis {place}")
    is_cut = 0 in [axis % len(shape) for axis in lists[0]]
    infer.set("Out", shape, x.dtype, lod=None if is_cut else x.lod)


computes(
    "strided_slice",
    _infer_strided,
    "strided_slice(input, axes, starts, ends, strides)",
    "strided_slice(x, axes, starts, ends, strides, name)",
    {"axes": [0], "starts": [0], "ends": [1], "strides": [1]},
    inputs=("Input",),
    grad=Grad(needs=("Input",), wrt=("Input",)),
    around=view,
)(cut)


def _infer_expand_as(infer: Infer) -> None:
    x, target = infer.var("X"), infer.var("target_tensor")
    fits = len(x.shape) == len(target.shape) and all(
        -1 in (own, wanted) or (own > 0 and wanted % own == 0)
        for own, wanted in zip(x.shape, target.shape, strict=True)
    )
    if not fits:
        raise infer.fail(f"X {x.name!r} of shape {list(x.shape)} does not repeat to {list(target.shape)}")
    infer.set("Out", target.shape, x.dtype, lod=target.lod)


@computes(
    "expand_as",
    _infer_expand_as,
    "expand_as(x, target_tensor, name)",
    inputs=("X", "target_tensor"),
    grad=Grad(needs=("X", "target_tensor"), wrt=("X",)),
)
def _repeated(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """`x` repeated until it has the shape of another variable."""
    return x.repeat([wanted // own if own else 1 for own, wanted in zip(x.shape, target.shape, strict=True)])


def _infer_unique(infer: Infer) -> None:
    infer.require_rank("X", 1)
    if infer.attr("dtype") not in ("int32", "int64"):
        raise infer.fail(f"dtype must be int32 or int64, got {infer.attr('dtype')}")
    infer.set("Out", (-1,), infer.dtype("X"))
    infer.set("Index", infer.shape("X"), infer.attr("dtype"))
    infer.set("Count", (-1,), infer.attr("dtype"))


@register(
    "unique_with_counts",
    inputs=("X",),
    outputs=("Out", "Index", "Count"),
    attrs={"dtype": "int32"},
    infer=_infer_unique,
    calls=[
        Calls(
            "(the distinct values of [n], in the order in which they come first; which of them each element is).",
            "unique(x, dtype='int32')",
            returns=("Out", "Index"),
        ),
        Calls(
            "`unique`, and how often each value is there.",
            "unique_with_counts(x, dtype='int32')",
            returns=("Out", "Index", "Count"),
        ),
    ],
)
def _unique(op: Operator, lowering: Lowering) -> Kernel:
    """In the order in which values come first, as the layer promises; torch sorts them."""
    dtype = torch.int32 if op.attr("dtype") == "int32" else torch.int64

    def unique(x: torch.Tensor) -> Any:
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        every = torch.arange(len(x), device=lowering.device)
        first = torch.full_like(counts, len(x)).scatter_reduce_(0, inverse, every, "amin")
        order = first.argsort()
        rank = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=lowering.device))
        return values[order], rank[inverse].to(dtype), counts[order].to(dtype)

    return unique


def _infer_shard(infer: Infer) -> None:
    infer.require_dtype("X", INTEGERS)
    shards, own = infer.attr("nshards"), infer.attr("shard_id")
    if not 0 <= own < shards or infer.attr("index_num") < 1:
        raise infer.fail(f"shard_id must be from 0 to nshards - 1 and index_num >= 1, got {own} of {shards}")
    infer.like("Out", "X")


_SHARD = "shard_index(input, index_num, nshards, shard_id, ignore_value=-1)"


_FACTS = {"index_num": 1, "nshards": 1, "shard_id": 0, "ignore_value": -1}


@computes("shard_index", _infer_shard, _SHARD, _SHARD, _FACTS)
def _in_shard(ids: torch.Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int) -> torch.Tensor:
    """Ids as places in the part of `index_num` that shard `shard_id` has, `ignore_value` for those of other shards."""
    if not 0 <= shard_id < nshards:
        raise UsageError(f"shard_index: shard_id must be from 0 to {nshards - 1}, got {shard_id}")
    size = -(-index_num // nshards)
    return torch.where(ids // size == shard_id, ids % size, ignore_value)
