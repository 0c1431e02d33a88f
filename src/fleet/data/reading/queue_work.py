"""The pieces that a queue hands to one worker, and what it has read of them."""

from collections.abc import Iterator, Sequence

from fleet.data.queue import PieceSource
from fleet.data.reading.file_positions import Handed
from fleet.data.reading.piece_batches import Piece, Work
from fleet.data.reading.piece_order import PieceSpan, rows_taken_of

EPOCHS_KEPT = 3
"""For how many epochs the pieces that this worker has read are remembered: others may still be in an earlier one."""


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
            yield Piece(number, self._rows_taken.get(number, 0))
        while (taken := self._source.take(self._epoch)) is not None:
            self._held.append(taken)
            yield Piece(taken, self._rows_taken.get(taken, 0))

    def note(self, finished: list[int], begun: Piece | None) -> None:
        for number in finished:
            self._held.remove(number)
            self._done[self._epoch] |= 1 << number
            self._num_done += 1
        self._begun = {}
        if begun is not None:
            self._rows_taken[begun.number] = begun.taken
            self._begun = {begun.number: begun.taken}

    def stop(self) -> None:
        """A question to the queue has a deadline of its own."""

    def handed(self) -> Handed:
        """For the position of this worker."""
        return Handed(dict(self._done), self._begun, self._num_done)

    def done_before(self) -> dict[int, int]:
        """What the next epoch's position says of this one and those before."""
        newest = sorted(self._done)[-(EPOCHS_KEPT - 1) :]
        return {epoch: self._done[epoch] for epoch in newest}
