"""Ragged rows in the order of their lengths, the longest first: how DynamicRNN goes through them, one value a turn.

A rank table is [rows, 2], int64: which row is the longest and how long it is, the next, and so on. In turn t those rows
are still going on that are longer than t, and they are the first ones.
"""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_programs.definition.kinds import ARRAY
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.segments import lengths, require_offsets
from fleet_programs.operators.tensors.arrays import index_of


def _infer_table(infer: Infer) -> None:
    require_offsets(infer)
    infer.set("Out", (-1, 2), "int64")


@register("lod_rank_table", inputs=("Offsets",), infer=_infer_table)
def _rank_table(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def rank(offsets: torch.Tensor) -> torch.Tensor:
        sizes = lengths(offsets)
        order = torch.sort(sizes, descending=True, stable=True).indices
        return torch.stack([order, sizes[order]], 1)

    return rank


def _require_table(infer: Infer) -> None:
    table = infer.var("RankTable")
    if table.dtype != "int64" or table.ndim != 2:
        raise infer.fail(f"RankTable {table.name!r} must be made with lod_rank_table()")


def _infer_longest(infer: Infer) -> None:
    _require_table(infer)
    infer.set("Out", (1,), "int64")


@register("max_sequence_len", inputs=("RankTable",), infer=_infer_longest)
def _longest(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda table: table[:1, 1].clone() if len(table) else table.new_zeros(1)


def _columns(table: torch.Tensor, offsets: torch.Tensor) -> list[torch.Tensor]:
    """For each turn, where the values of the rows that go on are."""
    begins = offsets[:-1][table[:, 0]]
    return [begins[table[:, 1] > turn] + turn for turn in range(int(table[0, 1]) if len(table) else 0)]


def _infer_to_array(infer: Infer) -> None:
    require_offsets(infer)
    _require_table(infer)
    infer.set("Out", (-1, *infer.shape("X")[1:]), infer.dtype("X"), kind=ARRAY)


@register(
    "lod_tensor_to_array",
    inputs=("X", "Offsets", "RankTable"),
    infer=_infer_to_array,
    grad=Grad(needs=("X", "Offsets", "RankTable"), wrt=("X",)),
    takes_arrays=True,
)
def _to_array(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x, offsets, table: [x[rows] for rows in _columns(table, offsets)]


@register_grad("lod_tensor_to_array")
def _to_array_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def back(x: torch.Tensor, offsets: torch.Tensor, table: torch.Tensor, grads: list[Any]) -> torch.Tensor:
        whole = torch.zeros_like(x)
        for rows, grad in zip(_columns(table, offsets), grads, strict=False):
            if grad is not None:
                whole[rows] = grad
        return whole

    return back


def _infer_to_rows(infer: Infer) -> None:
    array = infer.var("X")
    _require_table(infer)
    infer.set("OutOffsets", (-1,), "int64")
    infer.set("Out", (-1, *array.shape[1:]), array.dtype, lod=infer.op.output("OutOffsets")[0])


@register(
    "array_to_lod_tensor",
    inputs=("X", "RankTable"),
    outputs=("Out", "OutOffsets"),
    infer=_infer_to_rows,
    grad=Grad(needs=("RankTable",), wrt=("X",), outs=("Out",)),
    takes_arrays=True,
)
def _to_rows(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def join(array: list[Any], table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        offsets = _offsets(table)
        columns = _columns(table, offsets)
        if len(array) != len(columns) or not array:
            raise UsageError(
                f"array_to_lod_tensor: the longest row has {len(columns)} values, and the array {len(array)}"
            )
        whole = array[0].new_empty((int(offsets[-1]), *array[0].shape[1:]))
        for rows, values in zip(columns, array, strict=True):
            whole[rows] = values
        return whole, offsets

    return join


@register_grad("array_to_lod_tensor")
def _to_rows_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda table, grad: [grad[rows] for rows in _columns(table, _offsets(table))]


def _offsets(table: torch.Tensor) -> torch.Tensor:
    """Where rows begin, in the order in which they were before."""
    sizes = torch.empty_like(table[:, 1])
    sizes[table[:, 0]] = table[:, 1]
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _infer_shrunk(infer: Infer) -> None:
    _require_table(infer)
    x = infer.var("X")
    infer.set("Out", (-1, *x.shape[1:]), x.dtype)


@register(
    "shrink_rnn_memory",
    inputs=("X", "I", "RankTable"),
    infer=_infer_shrunk,
    grad=Grad(needs=("X", "I", "RankTable"), wrt=("X",)),
)
def _shrink(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda x, i, table: x[: int((table[:, 1] > index_of(i)).sum())].clone()


def _infer_reordered(infer: Infer) -> None:
    _require_table(infer)
    x = infer.var("X")
    if infer.has("Offsets"):
        require_offsets(infer)
        infer.set("OutOffsets", (-1,), "int64")
        infer.set("Out", (-1, *x.shape[1:]), x.dtype, lod=infer.op.output("OutOffsets")[0])
    else:
        infer.set("Out", x.shape, x.dtype)


@register(
    "reorder_lod_tensor_by_rank",
    inputs=("X", "RankTable", "Offsets?", "I?"),
    outputs=("Out", "OutOffsets?"),
    infer=_infer_reordered,
    grad=Grad(needs=("X", "RankTable", "Offsets", "I"), wrt=("X",), outs=("Out",)),
)
def _reorder(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """In the order of the table; with `I` only the rows that go on in that turn."""
    is_ragged, has_turn = bool(op.input("Offsets")), bool(op.input("I"))

    def reorder(x: torch.Tensor, table: torch.Tensor, *more: torch.Tensor) -> Any:
        order = table[table[:, 1] > index_of(more[-1]), 0] if has_turn else table[:, 0]
        if not is_ragged:
            return x[order]
        offsets = more[0]
        sizes = lengths(offsets)[order]
        ends = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        starts = torch.repeat_interleave(offsets[:-1][order] - ends[:-1], sizes)
        return x[starts + torch.arange(len(starts), device=x.device)], ends

    return reorder
