"""Operators that change the rows of a ragged batch: reshape, slice, erase, scatter, other offsets, windows of ids."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.programs.ops.ragged.belonging import offsets_of, owners, places
from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import same_dtype, view
from fleet_programs.operators.common.segments import lengths, require_offsets


def _ragged(infer: Infer, shape: tuple[int, ...]) -> None:
    """Out has rows of its own."""
    infer.set("OutOffsets", (-1,), "int64")
    infer.set("Out", shape, infer.dtype("X"), lod=infer.op.output("OutOffsets")[0])


def _infer_reshape(infer: Infer) -> None:
    infer.require_rank("X", 2)
    require_offsets(infer)
    if infer.attr("new_dim") < 1:
        raise infer.fail(f"new_dim must be >= 1, got {infer.attr('new_dim')}")
    _ragged(infer, (-1, infer.attr("new_dim")))


@register(
    "sequence_reshape",
    inputs=("X", "Offsets"),
    outputs=("Out", "OutOffsets"),
    attrs={"new_dim": 1},
    infer=_infer_reshape,
    grad=Grad(needs=(), outs=("Out",)),
    calls=Calls(
        "Rows of another width: [values, width] becomes [values * width / new_dim, new_dim], row by row.",
        "sequence_reshape(input, new_dim)",
    ),
)
def _sequence_reshape(op: Operator, lowering: Lowering) -> Kernel:
    name, wanted = op.input("X")[0], op.attr("new_dim")
    shaped = view(lambda x: x.reshape(-1, wanted), op, lowering)

    def reshape(x: torch.Tensor, offsets: torch.Tensor) -> Any:
        ends = offsets * x.shape[1]
        if x.shape[1] % wanted and bool((ends % wanted).any()):
            raise UsageError(
                f"sequence_reshape: every row of {name!r} must have a multiple of {wanted} numbers, got rows of "
                f"{ends.diff().tolist()[:8]}"
            )
        return shaped(x), ends // wanted

    return reshape


@register_grad("sequence_reshape")
def _sequence_reshape_grad(op: Operator, lowering: Lowering) -> Kernel:
    width = lowering.shape(op.output("X@GRAD")[0])[1]
    return lambda grad: grad.reshape(-1, width)


def _one_each(infer: Infer, *slots: str) -> None:
    """Fail unless slots have a whole number for each row."""
    for slot in slots:
        var = infer.var(slot)
        infer.require_dtype(slot, INTEGERS)
        if var.shape[1:] not in ((), (1,)):
            raise infer.fail(f"{slot} {var.name!r} must have one number for each row, got shape {list(var.shape)}")


def _infer_slice(infer: Infer) -> None:
    require_offsets(infer)
    _one_each(infer, "Offset", "Length")
    _ragged(infer, (-1, *infer.shape("X")[1:]))


@register(
    "sequence_slice",
    inputs=("X", "Offset", "Length", "Offsets"),
    outputs=("Out", "OutOffsets"),
    infer=_infer_slice,
    grad=Grad(needs=("X", "Offset", "Length", "Offsets"), outs=("Out",)),
    calls=Calls("Of row i the `length[i]` values from `offset[i]` on.", "sequence_slice(input, offset, length, name)"),
)
def _sequence_slice(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    name = op.input("X")[0]

    def cut(x: torch.Tensor, begin: torch.Tensor, length: torch.Tensor, offsets: torch.Tensor) -> Any:
        begins, sizes = begin.reshape(-1).to(torch.int64), length.reshape(-1).to(torch.int64)
        wrong = (begins < 0) | (sizes < 0) | (begins + sizes > lengths(offsets))
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            raise UsageError(
                f"sequence_slice: row {row} of {name!r} has {int(lengths(offsets)[row])} values, and {int(sizes[row])} "
                f"from {int(begins[row])} on are asked for"
            )
        made = offsets_of(sizes)
        owner = torch.repeat_interleave(sizes)
        return x.index_select(0, (offsets[:-1] + begins).index_select(0, owner) + places(made, owner)), made

    return cut


def _infer_erase(infer: Infer) -> None:
    infer.require_dtype("X", INTEGERS)
    require_offsets(infer)
    if infer.shape("X")[1:] not in ((), (1,)):
        raise infer.fail(f"X must have one id for each value, got shape {list(infer.shape('X'))}")
    _ragged(infer, (-1, *infer.shape("X")[1:]))


@register(
    "sequence_erase",
    inputs=("X", "Offsets"),
    outputs=("Out", "OutOffsets"),
    attrs={"tokens": []},
    infer=_infer_erase,
    calls=Calls(
        "Ids without those that `tokens` has; rows become shorter.",
        "sequence_erase(input, tokens, name)",
        to_attrs=lambda given: {"tokens": [int(one) for one in given["tokens"]]},
    ),
)
def _sequence_erase(op: Operator, lowering: Lowering) -> Kernel:
    gone = torch.tensor(list(op.attr("tokens")), dtype=torch.int64, device=lowering.device)

    def erase(x: torch.Tensor, offsets: torch.Tensor) -> Any:
        kept = ~torch.isin(x.reshape(-1), gone)
        before = torch.cat([kept.new_zeros(1), kept]).cumsum(0)
        return x[kept], before.index_select(0, offsets)

    return erase


def _infer_enumerate(infer: Infer) -> None:
    infer.require_dtype("X", INTEGERS)
    require_offsets(infer)
    x, size = infer.var("X"), infer.attr("win_size")
    if x.shape[1:] not in ((), (1,)):
        raise infer.fail(f"X {x.name!r} must have one id for each value, got shape {list(x.shape)}")
    if size < 1:
        raise infer.fail(f"win_size must be >= 1, got {size}")
    infer.set("Out", (x.shape[0], size), x.dtype, lod=x.lod)


@register(
    "sequence_enumerate",
    inputs=("X", "Offsets"),
    attrs={"win_size": 2, "pad_value": 0},
    infer=_infer_enumerate,
    calls=Calls(
        "For each id of a row itself and those after it, `win_size` in all; `pad_value` past the end of the row.",
        "sequence_enumerate(input, win_size, pad_value=0, name)",
    ),
)
def _sequence_enumerate(op: Operator, lowering: Lowering) -> Kernel:
    shifts = torch.arange(op.attr("win_size"), device=lowering.device)
    pad = op.attr("pad_value")

    def windows(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if not len(x):
            return x.new_empty(0, len(shifts))
        there = torch.arange(len(x), device=x.device).unsqueeze(1) + shifts
        last = offsets[1:].index_select(0, owners(offsets, len(x))).unsqueeze(1)
        return x.reshape(-1)[there.clamp(max=len(x) - 1)].masked_fill(there >= last, pad)

    return windows


def _infer_scatter(infer: Infer) -> None:
    infer.require_rank("X", 2)
    require_offsets(infer)
    infer.require_dtype("Ids", INTEGERS)
    same_dtype(infer, "X", "Updates")
    for slot in ("Ids", "Updates"):
        if infer.shape(slot)[1:] not in ((), (1,)):
            raise infer.fail(f"{slot} must have one number for each value, got shape {list(infer.shape(slot))}")
    infer.like("Out", "X")


@register(
    "sequence_scatter",
    inputs=("X", "Ids", "Updates", "Offsets"),
    infer=_infer_scatter,
    grad=Grad(needs=("X", "Ids", "Updates", "Offsets"), wrt=("X", "Updates")),
)
def _sequence_scatter(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    def scatter(x: torch.Tensor, ids: torch.Tensor, updates: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        row = owners(offsets, len(ids))
        return x.index_put((row, ids.reshape(-1).long()), updates.reshape(-1), accumulate=True)

    return scatter


def _infer_reset(infer: Infer) -> None:
    x, target = infer.var("X"), list(infer.attr("target_lod"))
    if bool(target) == infer.has("Y"):
        raise infer.fail("rows must be given by Y or by target_lod, and not by both")
    if target and (target[0] != 0 or target != sorted(target)):
        raise infer.fail(f"target_lod must begin with 0 and ascend, as offsets do, got {target}")
    _ragged(infer, x.shape)
    if not target:  # rows that are in groups stay there
        infer.set("OutOffsets", (-1,), "int64", lod=infer.var("Y").lod)


@register(
    "lod_reset",
    inputs=("X", "Y?"),
    outputs=("Out", "OutOffsets"),
    attrs={"target_lod": []},
    infer=_infer_reset,
    grad=Grad(needs=(), outs=("Out",)),
)
def _lod_reset(op: Operator, lowering: Lowering) -> Kernel:
    name, target = op.input("X")[0], torch.tensor(list(op.attr("target_lod")), dtype=torch.int64)
    kept, fixed = view(lambda x: x, op, lowering), target.to(lowering.device)

    def reset(x: torch.Tensor, *given: torch.Tensor) -> Any:
        offsets = given[0].reshape(-1).to(torch.int64).clone() if given else fixed.clone()
        if not len(offsets) or int(offsets[0]) != 0 or int(offsets[-1]) != len(x) or bool((offsets.diff() < 0).any()):
            raise UsageError(
                f"lod_reset: offsets must ascend from 0 to {len(x)}, the values of {name!r}, got {offsets.tolist()[:8]}"
            )
        return kept(x), offsets

    return reset


@register_grad("lod_reset")
def _lod_reset_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda grad: grad
