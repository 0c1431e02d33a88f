"""`chunk_eval`: how many chunks of tags, such as names in a sentence, were found right."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared
from fleet_programs.operators.common.segments import require_offsets

SCHEMES = {"plain": "I", "IOB": "BI", "IOE": "IE", "IOBES": "BIES"}
"""What the tags of a type mean, in their order: it begins, goes on, ends, or is alone."""
OUTPUTS = ("Precision", "Recall", "F1-Score", "NumInferChunks", "NumLabelChunks", "NumCorrectChunks")


def _infer(infer: Infer) -> None:
    for slot in ("Inference", "Label"):
        infer.require_dtype(slot, INTEGERS)
        if infer.shape(slot)[1:] not in ((), (1,)):
            raise infer.fail(f"{slot} must be one tag for each value, got shape {list(infer.shape(slot))}")
    require_offsets(infer)
    if infer.attr("chunk_scheme") not in SCHEMES or infer.attr("num_chunk_types") < 1:
        raise infer.fail(
            f"chunk_scheme must be one of {', '.join(SCHEMES)} and num_chunk_types >= 1, got "
            f"{infer.attr('chunk_scheme')!r} and {infer.attr('num_chunk_types')}"
        )
    for index, slot in enumerate(OUTPUTS):
        infer.set(slot, (1,), "float32" if index < 3 else "int64")


@register(
    "chunk_eval",
    inputs=("Inference", "Label", "Offsets"),
    outputs=OUTPUTS,
    attrs={"chunk_scheme": "IOB", "num_chunk_types": 1, "excluded_chunk_types": []},
    infer=_infer,
)
def _chunk_eval(op: Operator, lowering: Lowering) -> Kernel:
    roles, num_types = SCHEMES[op.attr("chunk_scheme")], op.attr("num_chunk_types")
    left_out = torch.tensor(list(op.attr("excluded_chunk_types")), dtype=torch.int64, device=lowering.device)

    def chunks(tags: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Where chunks begin, where they end, and what type each value has."""
        flat = tags.reshape(-1).long()
        types, places = (flat // len(roles)).clamp(0, num_types), flat % len(roles)
        nothing = torch.zeros_like(places, dtype=torch.bool)
        begin, end, alone = (places == roles.index(name) if name in roles else nothing for name in "BES")
        begins_row = torch.zeros(len(flat) + 1, dtype=torch.bool, device=flat.device).index_fill_(0, offsets, True)
        inside = types < num_types
        follows = ~begins_row[:-1] & _before(inside, False) & (_before(types, num_types) == types)
        # A chunk goes on unless this value begins one, or the one before has ended its own.
        breaks = begin | alone | _before(end | alone, False)
        begins = inside & ~(follows & ~breaks)
        after = torch.cat([begins, begins.new_ones(1)])[1:] | begins_row[1:]
        ends = inside & (after | ~torch.cat([inside, inside.new_zeros(1)])[1:])
        return begins.nonzero().squeeze(1), ends.nonzero().squeeze(1), types

    def measure(found: torch.Tensor, label: torch.Tensor, offsets: torch.Tensor) -> Any:
        kept = []
        for tags in (found, label):
            begins, ends, types = chunks(tags, offsets)
            own = types[begins]
            counts = ~torch.isin(own, left_out)
            kept.append(((begins * (len(found) + 1) + ends) * (num_types + 1) + own)[counts])
        numbers = [len(kept[0]), len(kept[1]), int(torch.isin(kept[0], kept[1]).sum())]
        precision, recall = (numbers[2] / count if count else 0.0 for count in numbers[:2])
        score = 2 * precision * recall / (precision + recall) if numbers[2] else 0.0
        rates = [torch.tensor([one], dtype=torch.float32) for one in (precision, recall, score)]
        return tuple(one.to(lowering.device) for one in (*rates, *(torch.tensor([one]) for one in numbers)))

    return compared(measure, op, lowering, "Inference", "Label", num_dims=1)


def _before(values: torch.Tensor, first: Any) -> torch.Tensor:
    """For each value the one before it."""
    return torch.cat([values.new_full((1,), first), values])[:-1]
