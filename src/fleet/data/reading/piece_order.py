"""Files as pieces: what is read at once. Their order in an epoch depends on the files, the seed and the epoch only.

Without shuffle a piece is a block of a file, in the order of the files. With it blocks come in a random order, several
make a piece, and the rows of a piece are permuted together. Nothing here knows how many workers there are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from fleet.data.columns.blocks import Block, FileFormat
from fleet.data.places.opening import packing_of
from fleet.data.shards.order import generator_of, permutation
from fleet.errors import UsageError

LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES = 4 << 10, 8 << 20
BLOCKS_WANTED = 256
"""Blocks that data of a middling size has: enough that workers get even shares."""

MOST_SHUFFLED_BYTES = 64 << 20
"""The largest piece with shuffle: it is in memory twice while its rows are permuted."""

SHUFFLED_WANTED = 64
MOST_PACKED_BYTES = 16 << 20
"""A packed file that is larger is a piece of its own, which is read part by part."""


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


def block_bytes(total_bytes: int) -> int:
    """How large blocks are to be."""
    return min(max(total_bytes // BLOCKS_WANTED, LEAST_BLOCK_BYTES), MOST_BLOCK_BYTES)


@dataclass(frozen=True, eq=False)
class FileSet:
    """The files that are read, each with its size and format."""

    sizes: dict[str, int]
    formats: dict[str, FileFormat]
    shuffle: bool
    seed: int

    @cached_property
    def total_bytes(self) -> int:
        """The bytes of all files."""
        return sum(self.sizes.values())

    @cached_property
    def blocks(self) -> list[Block]:
        """All of them, in the order of the files."""
        most = block_bytes(self.total_bytes)
        return [block for path in self.sizes for block in self.formats[path].cut(path, most)]

    @cached_property
    def fingerprint(self) -> str:
        """What files these are, by name and size; the folder they lie in may be another one."""
        names = list(self.sizes)
        start = len(os.path.commonprefix(names).rpartition("/")[0])  # noqa: RUF071 - cut at a slash, also of URLs
        told = [(name[start:].lstrip("/"), size) for name, size in self.sizes.items()]
        digest = hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()
        return f"{len(names)} files of {self.total_bytes:,} bytes ({digest})"

    def epoch(self, epoch: int) -> EpochPieces:
        """The pieces of an epoch."""
        if not self.shuffle:
            return self._in_order
        order = permutation(len(self.blocks), self.seed, epoch).tolist()
        return EpochPieces(grouped([self.blocks[place] for place in order]), (self.seed, epoch))

    @cached_property
    def _in_order(self) -> EpochPieces:
        return EpochPieces([[block] for block in self.blocks], None)


def grouped(blocks: Sequence[Block]) -> list[list[Block]]:
    """Blocks in groups of a size that can be held in memory, and so many that workers get even shares."""
    total_bytes = sum(block.size for block in blocks)
    most = min(max(total_bytes // SHUFFLED_WANTED, LEAST_BLOCK_BYTES), MOST_SHUFFLED_BYTES)
    groups: list[list[Block]] = []
    size = most
    for block in blocks:
        is_alone = block.size > MOST_PACKED_BYTES and packing_of(block.path) is not None
        if size + block.size > most or is_alone:
            groups.append([])
            size = 0
        groups[-1].append(block)
        size = most if is_alone else size + block.size
    return groups


class EpochPieces:
    """The pieces of one epoch, by their place in its order."""

    def __init__(self, pieces: list[list[Block]], shuffled_by: tuple[int, int] | None) -> None:
        self._pieces = pieces
        self._shuffled_by = shuffled_by
        self.sizes: Index = np.array([sum(block.size for block in piece) for piece in pieces], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._pieces)

    def blocks(self, piece: int) -> list[Block]:
        """What is read for a piece."""
        return self._pieces[piece]

    def size(self, piece: int) -> int:
        """Bytes of a piece."""
        return sum(block.size for block in self.blocks(piece))

    def row_order(self, piece: int, num_rows: int, part: int = 0) -> Index | None:
        """In which order the rows of a piece come, or of a part of it that is read alone; None: as they stand."""
        if self._shuffled_by is None:
            return None
        return random_order(num_rows, *self._shuffled_by, piece, *([part] if part else []))


def random_order(num_rows: int, *numbers: int) -> Index:
    """An order of rows, another one wherever one of the numbers differs."""
    order: Index = torch.randperm(num_rows, generator=generator_of(*numbers)).numpy()
    return order
