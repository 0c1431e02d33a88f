"""Lookups: rows of a table by their ids. A sparse table's gradient has as many rows as the batch, not as the table."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import NotReadyError, UsageError
from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows

_ATTRS = {"is_sparse": False, "is_distributed": False, "padding_idx": -1, "remote_prefetch": False}
_IDS = frozenset({"int64", "int32"})


def _infer(infer: Infer) -> None:
    infer.require_dtype("Ids", _IDS)
    infer.require_rank("W", 2)
    ids, table = infer.var("Ids"), infer.var("W")
    shape = ids.shape
    if infer.op.type == "lookup_table":
        if not shape or shape[-1] != 1:
            raise infer.fail(
                f"the last size of Ids {ids.name!r} must be 1, got shape {list(shape)}; use lookup_table_v2"
            )
        shape = shape[:-1]
    if not -1 <= infer.attr("padding_idx") < table.shape[0]:
        raise infer.fail(f"padding_idx must be below {table.shape[0]}, or -1 for none, got {infer.attr('padding_idx')}")
    infer.set("Out", (*shape, table.shape[1]), table.dtype, lod=ids.lod)


def _infer_gradient(infer: Infer) -> None:
    gradient = infer.op.output("W@GRAD")[0]
    table = infer.block.var(gradient.split("@GRAD")[0])
    infer.set("W@GRAD", table.shape, table.dtype, kind=ROWS if infer.attr("is_sparse") else None)


def _make(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    name, drops_last, padding = op.input("W")[0], op.type == "lookup_table", op.attr("padding_idx")
    if op.attr("is_distributed"):
        raise NotReadyError(
            f"table {name!r} is distributed and needs servers: transpile the program, or build it with "
            "is_distributed=False"
        )

    def plain(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        try:
            return torch.embedding(table, ids.squeeze(-1) if drops_last else ids)
        except IndexError:
            raise _out_of_range(name, ids, table) from None

    def padded(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        out = plain(table, ids)
        return out.masked_fill_(ids == padding if drops_last else (ids == padding).unsqueeze(-1), 0)

    return plain if padding < 0 else padded


def _out_of_range(name: str, ids: torch.Tensor, table: torch.Tensor) -> UsageError:
    wrong = ids[(ids < 0) | (ids >= len(table))][0]
    return UsageError(
        f"id {int(wrong)} is not in table {name!r}, whose ids are 0 to {len(table) - 1}; make the table larger, or "
        "check what is fed"
    )


def _make_gradient(op: Operator, lowering: Lowering) -> Kernel:
    height = lowering.shape(op.output("W@GRAD")[0])[0]
    width = lowering.shape(op.output("W@GRAD")[0])[1]
    drops_last, padding = op.type == "lookup_table_grad", op.attr("padding_idx")
    if not op.attr("is_sparse"):

        def dense(ids: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
            found = ids.squeeze(-1) if drops_last else ids
            summed: torch.Tensor = torch.ops.aten.embedding_dense_backward(grad, found, height, padding, False)
            return summed

        return dense

    def sparse(ids: torch.Tensor, grad: torch.Tensor) -> Any:
        return Rows(ids.reshape(-1), grad.reshape(-1, width), height)

    def padded(ids: torch.Tensor, grad: torch.Tensor) -> Any:
        index = ids.reshape(-1)
        kept = (index != padding).nonzero().squeeze(1)
        return Rows(index[kept], grad.reshape(-1, width)[kept], height)

    return sparse if padding < 0 else padded


for _type in ("lookup_table", "lookup_table_v2"):
    register(_type, inputs=("W", "Ids"), attrs=_ATTRS, infer=_infer, grad=Grad(needs=("Ids",), wrt=("W",)))(_make)
    register_grad(_type, infer=_infer_gradient)(_make_gradient)
