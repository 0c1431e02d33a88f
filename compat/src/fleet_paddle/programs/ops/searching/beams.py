"""`gather_tree`: whole ways of a beam search, from the ids of each step and the beams that they came from."""

from __future__ import annotations

import torch

from fleet_programs.definition.registry import Infer
from fleet_programs.operators.common.making import computes, same_shape


def _infer(infer: Infer) -> None:
    infer.require_rank("Ids", 3)
    same_shape(infer, "Ids", "Parents")
    infer.like("Out", "Ids")


@computes("gather_tree", _infer, "gather_tree(ids, parents)", inputs=("Ids", "Parents"))
def whole_ways(ids: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """Whole ways of a beam search, [time, batch, beam], from each step's ids and the beams that they came from."""
    made, beams = [ids[-1]], parents[-1].long()
    for step in range(ids.shape[0] - 2, -1, -1):
        made.append(torch.gather(ids[step], -1, beams))
        beams = torch.gather(parents[step].long(), -1, beams)
    return torch.stack(made[::-1])
