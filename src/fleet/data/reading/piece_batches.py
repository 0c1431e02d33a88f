"""Batches of the pieces of files: read ahead by threads, cut across pieces, with what each batch takes of them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from fleet.data.columns.blocks import Block, FileFormat, Problems
from fleet.data.columns.records import Batch, Cutter, Records, join
from fleet.data.columns.schema import Schema
from fleet.data.queue import PieceSource
from fleet.data.reading.file_positions import Handed
from fleet.data.reading.piece_order import EpochPieces, FileSet, PieceSpan, pass_over, rows_taken_of
from fleet.data.reading.read_ahead import ReadAhead
from fleet.errors import UsageError
from fleet.ps.worker.life.membership import HandedBack

MOST_BYTES_AT_ONCE = 16 << 20
"""A packed file that is larger is unpacked and read part by part; no other block is so large."""
EPOCHS_KEPT = 3
"""For how many epochs the pieces that this worker has read are remembered: others may still be in an earlier one."""


class Piece(NamedTuple):
    """A piece to be read, without the first `taken` of its rows."""

    number: int
    taken: int


class Taken(NamedTuple):
    """A batch, which pieces end with it, and the piece that it ends in with the rows that are taken of that."""

    batch: Batch
    finished: list[int]
    begun: Piece | None


@dataclass(frozen=True, eq=False)
class PieceReader:
    """How pieces of a set of files become batches."""

    files: FileSet
    schema: Schema
    batch_size: int
    num_threads: int
    problems: Problems

    def batches(self, pieces: EpochPieces, work: Work) -> Generator[Taken, None, None]:
        """The batches of the pieces that are wanted. Close it: threads read ahead until then."""
        cutter = Cutter(self.batch_size)
        waiting = 0  # rows of pieces that are read to their end, but in no batch yet
        ended: list[int] = []
        ahead: ReadAhead[Piece, Records | None] = ReadAhead(
            work.wanted(),
            lambda piece: self._read(pieces, piece),
            num_threads=self.num_threads,
            most_ahead=work.most_ahead or self.num_threads + 1,
            size_of=lambda piece: pieces.size(piece.number),
            name_of=lambda piece: pieces.blocks(piece.number)[0].path,
            stop=work.stop,
        )
        with ahead:
            for piece, found in ahead:
                before, is_end = 0, False
                with self._opened(pieces, piece, found) as parts:
                    for records, is_last in _with_last(parts):
                        end = -waiting
                        for batch in cutter.add(records):
                            end += self.batch_size
                            is_end = is_last and end == records.num
                            finished, ended = ended + [piece.number] * is_end, []
                            begun = None if is_end else Piece(piece.number, piece.taken + before + end)
                            yield Taken(self.schema.batch(batch), finished, begun)
                        before += records.num
                        waiting = sum(part.num for part in cutter.rest)
                if not is_end:
                    ended.append(piece.number)
            if cutter.rest:
                yield Taken(self.schema.batch(join(cutter.rest)), ended, None)

    def _read(self, pieces: EpochPieces, piece: Piece) -> Records | None:
        """The rows of a piece that are still to be taken. None: they are read part by part when their turn comes."""
        blocks = pieces.blocks(piece.number)
        for block in blocks:
            self._check_size(block.path)
        if len(blocks) == 1 and blocks[0].size > MOST_BYTES_AT_ONCE and hasattr(self._format(blocks[0]), "read_parts"):
            return None
        records = join([self._format(block).read(block, self.problems) for block in blocks])
        order = pieces.row_order(piece.number, records.num)
        _refuse_fewer(piece, records.num)
        if order is not None:
            return records.take(order[piece.taken :])
        return records.part(piece.taken, records.num) if piece.taken else records

    def _format(self, block: Block) -> FileFormat:
        return self.files.formats[block.path]

    @contextmanager
    def _opened(self, pieces: EpochPieces, piece: Piece, found: Records | None) -> Iterator[Iterator[Records]]:
        """The parts of a piece: one, or those of a packed file that is too large to be held in memory."""
        if found is not None:
            yield iter((found,))
            return
        block = pieces.blocks(piece.number)[0]
        parts: Iterator[Records] = self._format(block).read_parts(block, self.problems)  # type: ignore[attr-defined]
        with ReadAhead(parts, lambda part: part, num_threads=1, most_ahead=1) as ahead:
            yield self._left_of(pieces, piece, (part for _, part in ahead))

    def _left_of(self, pieces: EpochPieces, piece: Piece, parts: Iterator[Records]) -> Iterator[Records]:
        num_rows = 0
        for number, part in enumerate(parts):
            order = pieces.row_order(piece.number, part.num, number)
            skipped = min(max(piece.taken - num_rows, 0), part.num)
            num_rows += part.num
            if skipped < part.num:
                yield part.part(skipped, part.num) if order is None else part.take(order[skipped:])
        _refuse_fewer(piece, num_rows)

    def _check_size(self, path: str) -> None:
        if "://" in path:
            return
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read any more: {error.strerror}; leave the files alone until the job has ended"
            ) from error
        if size != self.files.sizes[path]:
            raise UsageError(
                f"{path} had {self.files.sizes[path]:,} bytes when it was first looked at and has {size:,} now; leave "
                "the files alone until the job has ended, or use follow= for a folder that grows"
            )


def _refuse_fewer(piece: Piece, num_rows: int) -> None:
    if piece.taken > num_rows:
        raise UsageError(
            f"piece {piece.number} has {num_rows} rows, of which {piece.taken} were read before this run: the files "
            "are not what they were; begin again without the saved position"
        )


def _with_last(parts: Iterator[Records]) -> Iterator[tuple[Records, bool]]:
    """Each part, and whether it is the last."""
    held = next(parts, None)
    while held is not None:
        following = next(parts, None)
        yield held, following is None
        held = following


class Work(ABC):
    """What one reading takes its pieces from."""

    most_ahead: int | None
    """How many pieces may be read ahead; None: as many as threads can use."""

    @abstractmethod
    def wanted(self) -> Iterator[Piece]:
        """The pieces that are not finished, from the first on."""

    @abstractmethod
    def note(self, finished: list[int], begun: Piece | None) -> None:
        """A batch was taken."""

    def stop(self) -> None:  # noqa: B027 - most know their pieces, or have a deadline of their own
        """Let a thread that waits for a piece go; `wanted` may be asked for again."""

    def wait(self) -> bool:
        """Everything that was wanted is trained on: whether more is wanted now; it may take a while."""
        return False


class SpanWork(Work):
    """Spans of pieces, one after the other."""

    most_ahead = None

    def __init__(self, spans: Iterable[PieceSpan]) -> None:
        self.spans = list(spans)

    def wanted(self) -> Iterator[Piece]:
        for span in list(self.spans):
            for number in range(span.first, span.last):
                yield Piece(number, span.taken if number == span.first else 0)

    def note(self, finished: list[int], begun: Piece | None) -> None:
        pass_over(self.spans, finished, begun)


class QueueWork(Work):
    """One epoch from a queue. One piece is read ahead: what a slow worker has taken nobody else can read."""

    most_ahead = 1

    def __init__(
        self, source: PieceSource, epoch: int, num_pieces: int, left: Sequence[PieceSpan], before: Handed | None
    ) -> None:
        """`left` is what there was for all workers; `before`: what a former life of this worker was handed of it."""
        self._source = source
        self._epoch = epoch
        self.left = list(left)
        self._num_pieces = num_pieces
        self._rows_taken = rows_taken_of(self.left) | dict(before.begun if before is not None else {})
        self._is_begun = False
        self._held: list[int] = []
        self._num_done = 0 if before is None else before.num_done
        self._done = dict(before.done if before is not None else {})
        self._done.setdefault(epoch, 0)
        self._begun: dict[int, int] = dict(before.begun if before is not None else {})

    def wanted(self) -> Iterator[Piece]:
        if not self._is_begun:
            tail = self.left[-1] if self.left else PieceSpan(self._num_pieces, self._num_pieces)
            is_tail = tail.last == self._num_pieces
            first = tail.first if is_tail else self._num_pieces
            extra = sorted(rows_taken_of(self.left[:-1] if is_tail else self.left))
            self._source.begin(self._epoch, first, self._num_pieces, extra, self._num_done)
            self._is_begun = True
        for number in list(self._held):
            yield Piece(number, self._rows_of(number))
        while (taken := self._source.take(self._epoch)) is not None:
            self._held.append(taken)
            yield Piece(taken, self._rows_of(taken))

    def _rows_of(self, piece: int) -> int:
        """How many rows of a piece are trained on: by this worker, by the run before, or by one that handed it back."""
        return max(self._rows_taken.get(piece, 0), self._source.rows_taken(self._epoch, piece))

    def wait(self) -> bool:
        return self._source.wait(self._epoch)

    def back(self) -> HandedBack | None:
        """What this worker says of the epoch when it leaves, begun or not; its threads have ended."""
        return self._source.back(self._epoch, self._num_done, next(iter(self._begun.values()), 0))

    def note(self, finished: list[int], begun: Piece | None) -> None:
        for number in finished:
            self._held.remove(number)
            self._done[self._epoch] |= 1 << number
            self._num_done += 1
        self._begun = {}
        if begun is not None:
            self._rows_taken[begun.number] = begun.taken
            self._begun = {begun.number: begun.taken}

    def handed(self) -> Handed:
        """For the position of this worker."""
        return Handed(dict(self._done), self._begun, self._num_done)

    def done_before(self) -> dict[int, int]:
        """What the next epoch's position says of this one and those before."""
        newest = sorted(self._done)[-(EPOCHS_KEPT - 1) :]
        return {epoch: self._done[epoch] for epoch in newest}


class Reading(Iterator[Taken]):
    """The batches of some work. It can be closed when a loop is left, and goes on when the next one asks."""

    def __init__(self, reader: PieceReader, pieces: EpochPieces, work: Work) -> None:
        self._reader, self._pieces, self._work = reader, pieces, work
        self._live: Generator[Taken, None, None] | None = None

    def __next__(self) -> Taken:
        while True:
            if self._live is None:
                self._live = self._reader.batches(self._pieces, self._work)
            if (taken := next(self._live, None)) is not None:
                self._work.note(taken.finished, taken.begun)
                return taken
            if not self._work.wait():
                raise StopIteration
            self.close()

    def close(self) -> None:
        """End the threads, and forget what they have read."""
        live, self._live = self._live, None
        if live is not None:
            live.close()
