"""`sequence_order`: the rows of a ragged batch side by side in time, longest first, as recurrent operators walk them.

It is made once for all operators over one variable, so that they need not sort again. `Order` says for each value in
the new order where it is in the old one; `Sizes` how many rows are still going on at each time, in host memory; `Rank`
which row is the longest, the second, and so on. Empty rows are last in `Rank` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.segments import require_offsets

ORDER = ("Order", "Sizes", "Rank")
"""Slots of operators that walk through time."""


def _infer(infer: Infer) -> None:
    require_offsets(infer)
    for slot in ORDER:
        infer.set(slot, (-1,), "int64")


@register("sequence_order", inputs=("Offsets",), outputs=ORDER, attrs={"is_reverse": False}, infer=_infer)
def _sequence_order(op: Operator, lowering: Lowering) -> Kernel:
    is_reverse, device = op.attr("is_reverse"), lowering.device

    def order(offsets: torch.Tensor) -> Any:
        begins = offsets.cpu()
        lengths, rank = begins.diff().sort(descending=True, stable=True)
        longest = int(lengths[0]) if len(lengths) else 0
        shorter = torch.searchsorted(lengths.flip(0), torch.arange(longest), right=True)
        sizes = len(lengths) - shorter
        step = torch.repeat_interleave(sizes)
        row = torch.arange(len(step)) - (sizes.cumsum(0) - sizes)[step]
        first = begins[:-1][rank][row]
        place = first + lengths[row] - 1 - step if is_reverse else first + step
        return place.to(device), sizes, rank.to(device)

    return order


def require_order(infer: Infer) -> None:
    """Fail unless the slots of `ORDER` hold what `sequence_order` makes."""
    for slot in ORDER:
        require_offsets(infer, slot)


def spans(sizes: torch.Tensor) -> list[tuple[int, int]]:
    """Where the values of each time begin and end in the new order."""
    ends = [0, *sizes.cumsum(0).tolist()]
    return list(pairwise(ends))


def begun(given: torch.Tensor | None, rank: torch.Tensor, width: int, like: torch.Tensor) -> torch.Tensor:
    """What rows begin with, longest first: zeros unless given, then one of each row."""
    return like.new_zeros(len(rank), width) if given is None else given.index_select(0, rank)


def unpacked(packed: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Values in the order of the rows again."""
    return torch.empty_like(packed).index_copy_(0, order, packed)


def previous(packed: torch.Tensor, first: torch.Tensor, times: list[tuple[int, int]]) -> torch.Tensor:
    """For each value the one before it in its row; `first` before the first ones."""
    return torch.cat(list(_parts(packed, first, times))) if times else packed


def _parts(packed: torch.Tensor, first: torch.Tensor, times: list[tuple[int, int]]) -> Iterator[torch.Tensor]:
    yield first[: times[0][1]]
    for (begin, _), (here, end) in pairwise(times):
        yield packed[begin : begin + end - here]
