"""Where parameters lie in flat buffers: who begins where, and which spans of them a server holds."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from fleet.ps.job.dense_spec import DenseBlock

ALIGNMENT = 16  # elements, 64 bytes

Span = tuple[int, int]
"""The first element, and the one after the last."""


class Portion(NamedTuple):
    """Some elements of one parameter."""

    parameter: int
    """Its number among all, in the order of the buffers."""
    begin: int
    end: int

    @property
    def size(self) -> int:
        """In bytes."""
        return 4 * (self.end - self.begin)


def begins_of(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where each parameter begins, and the size of the buffer."""
    begins, end = [], 0
    for size in sizes:
        begins.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return begins, end


def spans_of(begins: dict[str, int], blocks: Sequence[DenseBlock]) -> dict[tuple[int, int], tuple[Span, ...]]:
    """The spans of each server and group, in the order of the blocks; those that touch are one."""
    spans: dict[tuple[int, int], list[Span]] = {}
    for block in blocks:
        begin, end = begins[block.parameter] + block.begin, begins[block.parameter] + block.end
        known = spans.setdefault((block.server, block.group), [])
        if known and known[-1][1] == begin:
            begin = known.pop()[0]
        known.append((begin, end))
    return {place: tuple(known) for place, known in spans.items()}


def portions_of(spans: Sequence[Span], begins: Sequence[int], sizes: Sequence[int]) -> list[Portion]:
    """The portions of parameters that some spans are made of; gaps between parameters belong to none."""
    found = []
    for begin, end in spans:
        for number in range(max(0, bisect_right(begins, begin) - 1), bisect_left(begins, end)):
            low, high = max(begin, begins[number]), min(end, begins[number] + sizes[number])
            if low < high:
                found.append(Portion(number, low - begins[number], high - begins[number]))
    return found
