"""Ids that repeat, blanks between them, and how far two rows of ids are from each other."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.segments import require_offsets

T = torch.Tensor


def _infer_align(infer: Infer) -> None:
    infer.require_dtype("Input", INTEGERS)
    require_offsets(infer)
    infer.set("OutOffsets", infer.shape("Offsets"), "int64")
    infer.set("Output", [-1, 1], "int64", lod=infer.op.output("OutOffsets")[0])


@register(
    "ctc_align", inputs=("Input", "Offsets"), outputs=("Output", "OutOffsets"), attrs={"blank": 0}, infer=_infer_align
)
def _align(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    blank = op.attr("blank")

    def merged(ids: T, offsets: T) -> Any:
        flat = ids.reshape(-1)
        begins = torch.zeros(len(flat) + 1, dtype=torch.bool, device=flat.device).index_fill_(0, offsets, True)[:-1]
        kept = (flat != blank) & (begins | (flat != torch.roll(flat, 1)))
        before = torch.cat([kept.new_zeros(1), kept]).cumsum(0)
        return flat[kept].unsqueeze(1), before.index_select(0, offsets)

    return merged


def _infer_padded(infer: Infer) -> None:
    infer.require_dtype("Input", INTEGERS)
    infer.require_rank("Input", 2)
    infer.set("Output", infer.shape("Input"), "int64")
    infer.set("OutputLength", [infer.shape("Input")[0], 1], "int64")


@register(
    "ctc_align_padded",
    inputs=("Input", "InputLength"),
    outputs=("Output", "OutputLength"),
    attrs={"blank": 0, "padding_value": 0},
    infer=_infer_padded,
)
def _align_padded(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    blank, pad = op.attr("blank"), op.attr("padding_value")

    def merged(ids: T, lengths: T) -> Any:
        places = torch.arange(ids.shape[1], device=ids.device)
        is_new = torch.cat([torch.ones_like(ids[:, :1], dtype=torch.bool), ids[:, 1:] != ids[:, :-1]], 1)
        kept = is_new & (ids != blank) & (places < lengths.reshape(-1, 1))
        numbers = kept.sum(1, keepdim=True)
        order = torch.argsort(kept.long(), dim=1, descending=True, stable=True)
        return torch.where(places < numbers, ids.gather(1, order), pad), numbers

    return merged


def _infer_distance(infer: Infer) -> None:
    for slot in ("Hyps", "Refs", "HypsLength", "RefsLength"):
        infer.require_dtype(slot, INTEGERS)
    infer.set("Out", [infer.shape("Hyps")[0], 1], "float32")
    infer.set("SequenceNum", [1], "int64")


@register(
    "edit_distance",
    inputs=("Hyps", "Refs", "HypsLength", "RefsLength"),
    outputs=("Out", "SequenceNum"),
    attrs={"normalized": True},
    infer=_infer_distance,
)
def _edit_distance(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    normalized = op.attr("normalized")

    def distances(*given: T) -> Any:
        rows = [one.reshape(len(given[2].reshape(-1)), -1).tolist() for one in given]
        found = []
        for guess, truth, (size,), (wanted,) in zip(*rows, strict=True):
            steps = _steps(guess[:size], truth[:wanted])
            found.append(steps / max(wanted, 1) if normalized else steps)
        made = torch.tensor(found, dtype=torch.float32, device=given[0].device).unsqueeze(1)
        return made, torch.tensor([len(found)], device=given[0].device)

    return distances


def _steps(guess: list[int], truth: list[int]) -> int:
    """Levenshtein's distance, row by row of his table."""
    before = list(range(len(truth) + 1))
    for place, one in enumerate(guess, 1):
        row = [place]
        for at, other in enumerate(truth):
            row.append(min(before[at] + (one != other), before[at + 1] + 1, row[at] + 1))
        before = row
    return before[-1]
