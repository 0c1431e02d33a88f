"""What of an epoch is still to be read, as spans of its pieces, and how that is divided. Pure functions."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.errors import UsageError

Index = npt.NDArray[np.int64]


class PieceSpan(NamedTuple):
    """Pieces `first` up to, without, `last`; of the first one, `taken` rows were read already."""

    first: int
    last: int
    taken: int = 0


def whole(num_pieces: int) -> list[PieceSpan]:
    """A whole epoch."""
    return [PieceSpan(0, num_pieces)] if num_pieces else []


def spans_of(rows_taken: dict[int, int]) -> list[PieceSpan]:
    """Spans of single pieces, in their order; each is given with the rows that were taken of it.

    >>> spans_of({4: 0, 2: 7, 3: 0, 5: 1})
    [PieceSpan(first=2, last=5, taken=7), PieceSpan(first=5, last=6, taken=1)]
    """
    found: list[PieceSpan] = []
    for piece in sorted(rows_taken):
        taken = rows_taken[piece]
        if found and found[-1].last == piece and not taken:
            found[-1] = found[-1]._replace(last=piece + 1)
        else:
            found.append(PieceSpan(piece, piece + 1, taken))
    return found


def rows_taken_of(spans: Iterable[PieceSpan]) -> dict[int, int]:
    """The other way: every piece, with the rows that were taken of it."""
    return {piece: span.taken if piece == span.first else 0 for span in spans for piece in range(span.first, span.last)}


def num_pieces_of(spans: Iterable[PieceSpan]) -> int:
    """How many pieces there are in them."""
    return sum(span.last - span.first for span in spans)


def divide(spans: Sequence[PieceSpan], sizes: Index, part: int, num_parts: int) -> list[PieceSpan]:
    """A part of what is left, of about as many bytes as every other; parts are contiguous and keep the order.

    >>> divide([PieceSpan(0, 5)], np.array([8, 8, 8, 8, 8]), 0, 2)
    [PieceSpan(first=0, last=2, taken=0)]
    """
    if not spans:
        return []
    pieces = np.concatenate([np.arange(span.first, span.last) for span in spans])
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.maximum(sizes[pieces], 1))])
    begin, end = (_nearest(ends, edge, num_parts) for edge in (part, part + 1))
    found = []
    for span in spans:  # [begin, end) counts the pieces of all spans
        first, last = max(span.first, span.first + begin), min(span.last, span.first + end)
        if first < last:
            found.append(PieceSpan(first, last, span.taken if first == span.first else 0))
        begin, end = begin - (span.last - span.first), end - (span.last - span.first)
    return found


def _nearest(ends: Index, part: int, num_parts: int) -> int:
    """After how many pieces the beginning of a part comes nearest."""
    wanted = int(ends[-1]) * part / num_parts
    after = int(np.searchsorted(ends, wanted))
    return after - 1 if after and wanted - ends[after - 1] <= ends[after] - wanted else after


def pass_over(spans: list[PieceSpan], finished: Iterable[int], begun: tuple[int, int] | None) -> None:
    """Take finished pieces, which are the first ones, from a list of spans; `begun`: the next, and its rows taken."""
    for piece in finished:
        span = spans[0]
        assert span.first == piece, "pieces are read in order"
        if piece + 1 < span.last:
            spans[0] = PieceSpan(piece + 1, span.last)
        else:
            del spans[0]
    if begun is not None:
        spans[0] = spans[0]._replace(taken=begun[1])


def spans_from(stored: Any, what: str) -> list[PieceSpan]:
    """Spans from JSON; UsageError, which says `what` they are, if they are not in order."""
    try:
        spans = [PieceSpan(*map(_count, one)) for one in stored]
        ordered = all(one.first < one.last for one in spans)
        ordered &= all(one.last <= other.first for one, other in pairwise(spans))
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        raise UsageError(f"{what} of a reader's state must be spans of pieces, got {stored!r}; the state is damaged")
    return spans


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
