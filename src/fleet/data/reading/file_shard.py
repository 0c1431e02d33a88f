"""A worker's batches of files: its part of the pieces of each epoch, or those that a queue hands to it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar

import torch
from torch.utils.data import IterableDataset, get_worker_info

from fleet.data.columns.records import Batch
from fleet.data.queue import PieceSource
from fleet.data.reading.file_positions import Handed, Position, in_order, together
from fleet.data.reading.piece_batches import PieceReader, QueueWork, Reading, SpanWork, Taken
from fleet.data.reading.piece_order import EpochPieces, PieceSpan, divide, whole
from fleet.data.shards.base import Uneven
from fleet.data.shards.stream import StreamShard
from fleet.data.shards.workers import Workers
from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.ps.worker.life.membership import HandedBack

log = logging.getLogger(__name__)


class PieceShard(StreamShard):
    """What both kinds of readers of files are: positions of one worker or of all, and pieces that become batches."""

    _unit = "batches"
    _read: ClassVar[str]
    """What is read, in errors."""

    def __init__(self, reader: PieceReader, workers: Workers, *, uneven: Uneven) -> None:
        self._reader = reader
        self._num_told = 0
        super().__init__(None, workers, uneven=uneven)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Go on at the state of this worker, or at those of all workers of a run: then their number may be another.

        Every row that no worker had taken is read once. Other files, a state that is missing, and the state of another
        worker are refused.
        """
        if isinstance(state, Mapping):
            super().load_state_dict(state)
        else:
            self.load_state_dicts(state)

    @abstractmethod
    def load_state_dicts(self, states: Sequence[Mapping[str, Any]]) -> None:
        """`load_state_dict` with the states of all workers of a run."""

    def go_on_at(self, state: Mapping[str, Any]) -> None:
        (state,) = self._checked(state)
        own, here = (state["worker"], state["workers"]), self._workers
        if own != (here.index, here.num):
            raise UsageError(
                f"the state is that of worker {own[0]} of {own[1]}, and this is worker {here.index} of {here.num}: "
                f"give load_state_dict the list of the states of all {own[1]}, as fleet.Checkpoint does"
            )
        self._go_on(state)

    @abstractmethod
    def _go_on(self, state: Mapping[str, Any]) -> None:
        """Take up a state of this worker, which is of these files."""

    def _checked(self, given: Any) -> list[Mapping[str, Any]]:
        """The states that `load_state_dict` was given, one or a list; UsageError for one that is of something else."""
        states = list(given) if isinstance(given, list | tuple) else [given]
        own = self.state_dict().keys() - {"padded"}
        for state in states:
            if not isinstance(state, Mapping):
                raise UsageTypeError(
                    f"load_state_dict takes what state_dict gave, or a list of it, got {type(state).__name__}"
                )
            if state.get("kind") != self._kind or not own <= state.keys():
                found = ", ".join(f"{name} {value!r}" for name, value in state.items()) or "nothing"
                raise UsageError(
                    f"this is no state of a reader of {self._read}, it has {found[:200]}; load what state_dict() gave"
                )
            self._check_values(state, "epoch", self._unit, "worker", "workers")
        return states

    def _forget(self) -> None:
        if isinstance(reading := getattr(self, "_iterator", None), Reading):
            reading.close()
        super()._forget()

    def _batches(self) -> Iterator[Batch]:
        try:
            for taken in super()._batches():
                self._hand_out(taken)
                yield taken.batch
        finally:
            if isinstance(self._iterator, Reading):
                self._iterator.close()
        self._tell_problems()

    def _hand_out(self, taken: Taken) -> None:
        """Note a batch that the loop gets."""

    def _tell_problems(self) -> None:
        problems = self._reader.problems
        problems.finish()
        if num_bad := problems.num_bad - self._num_told:
            worker = f"worker {self._workers.index}: " if self._workers.num > 1 else ""
            log.warning("%s%d lines of epoch %d could not be read and were left out", worker, num_bad, self._epoch)
        self._num_told = problems.num_bad

    def _agreed(self) -> dict[str, Any]:
        return {**self._settings(), "batch_size": self._reader.batch_size}


class FileShard(PieceShard):
    """What `fleet.data.files` returns: this worker's batches. What ends an epoch is what ends that of a stream.

    The position is what this worker has still to read. One goes on with the worker that it is of; those of all workers
    together go on with any number of them.
    """

    _kind = _read = "files"
    _same_again = "go on with the same files, shuffle and seed, or begin again without this state"

    def __init__(self, reader: PieceReader, workers: Workers, *, uneven: Uneven, queue: PieceSource | None) -> None:
        self._queue = queue
        self._pieces: tuple[int, EpochPieces] | None = None
        self._later: dict[int, Sequence[PieceSpan]] = {}
        self._goes_on_at: tuple[Sequence[PieceSpan], Handed | None] | None = None
        self._done_before: dict[int, int] = {}
        super().__init__(reader, workers, uneven=uneven)
        if queue is not None and workers.membership is not None:
            workers.membership.add(self)

    def hand_back(self) -> HandedBack | None:
        """See `fleet.ps.worker.life.membership.QueueReader`."""
        if isinstance(self._iterator, Reading):
            self._iterator.close()
        return self._work.back() if isinstance(self._work, QueueWork) else None

    def __len__(self) -> int:
        raise UsageTypeError(
            "how many batches files have is known when they were read: count them; for a DataLoader, give it .dataset()"
        )

    def dataset(self) -> FileDataset:
        """For `torch.utils.data.DataLoader(..., batch_size=None)`, whose processes divide this worker's part."""
        if self._queue is not None:
            raise NotSupportedError(
                "the processes of a DataLoader divide a part that is known before; leave out queue=True, or loop over "
                "fleet.data.files(...) itself"
            )
        return FileDataset(self._reader, self._workers.index, self._workers.num, self._epoch)

    def state_dict(self) -> dict[str, Any]:
        """This worker's position, as plain values for JSON: small, and made without asking anybody.

        Every batch that was handed out counts, also the one that the loop has in hand: call it after that one's step.
        """
        return {"kind": self._kind, **self._position().state(), **self._settings()}

    def load_state_dicts(self, states: Sequence[Mapping[str, Any]]) -> None:
        positions = in_order([Position.of(one) for one in self._checked(states)])
        if len(positions) == self._workers.num and self._queue is None and positions[0].handed is None:
            self._take_up(positions[self._workers.index])
        else:
            left = together(positions, self._reader.files)
            epoch = min(left)
            self._go_to(epoch, sum(one.count for one in positions if one.epoch == epoch) // self._workers.num)
            rest = left.pop(epoch)  # of all workers
            self._later, self._done_before = dict(left), {}
            self._goes_on_at = (rest if self._queue is not None else self._part(rest)), None
        self._ask()

    def _go_on(self, state: Mapping[str, Any]) -> None:
        position = Position.of(state)
        if (position.handed is None) != (self._queue is None):
            raise UsageError(
                f"the state was saved {'without' if self._queue else 'with'} queue=True; go on as before, or give "
                "load_state_dict the list of the states of all workers"
            )
        self._take_up(position)

    # Positions.

    def _take_up(self, position: Position) -> None:
        self._go_to(position.epoch, position.count)
        self._later = dict(position.later)
        self._goes_on_at = position.rest, position.handed
        self._num_padded = position.padded

    def _go_to(self, epoch: int, count: int) -> None:
        if isinstance(self._work_in_hand, QueueWork):
            self._done_before = self._work_in_hand.done_before()
        super()._go_to(epoch, count)
        self._later = {number: spans for number, spans in self._later.items() if number >= epoch}
        self._goes_on_at = None

    def _forget(self) -> None:
        super()._forget()
        self._work_in_hand: SpanWork | QueueWork | None = None
        """What the batches come from that were handed out; made when it is first needed."""
        self._num_padded = 0
        self._is_padding = False

    @property
    def _work(self) -> SpanWork | QueueWork:
        if self._work_in_hand is None:
            self._work_in_hand = self._new_work()
        return self._work_in_hand

    def _new_work(self) -> SpanWork | QueueWork:
        num_pieces = len(self._epoch_pieces)
        if self._goes_on_at is not None:
            rest, handed = self._goes_on_at
        else:
            of_all = self._later[self._epoch] if self._epoch in self._later else whole(num_pieces)
            rest, handed = of_all if self._queue is not None else self._part(of_all), None
        if self._queue is None:
            return SpanWork(rest)
        return QueueWork(self._queue, self._epoch, num_pieces, rest, handed or Handed(self._done_before, {}))

    def _position(self) -> Position:
        work, workers = self._work, self._workers
        later = {number: spans for number, spans in self._later.items() if number > self._epoch}
        rest, handed = (work.left, work.handed()) if isinstance(work, QueueWork) else (work.spans, None)
        return Position(self._epoch, self._count, workers.index, workers.num, rest, later, handed, self._num_padded)

    @property
    def _epoch_pieces(self) -> EpochPieces:
        if self._pieces is None or self._pieces[0] != self._epoch:
            self._pieces = self._epoch, self._reader.files.epoch(self._epoch)
        return self._pieces[1]

    def _part(self, spans: Sequence[PieceSpan]) -> list[PieceSpan]:
        """This worker's part of what there is for all."""
        return divide(spans, self._epoch_pieces.sizes, self._workers.index, self._workers.num)

    def _some_have_none(self) -> bool:
        if self._queue is not None or self._goes_on_at is not None:  # nobody knows what the others have
            return False
        spans, sizes = self._later.get(self._epoch, whole(len(self._epoch_pieces))), self._epoch_pieces.sizes
        return any(not divide(spans, sizes, worker, self._workers.num) for worker in range(self._workers.num))

    # Reading.

    def _begin(self) -> None:
        self._is_begun = True
        self._is_empty = self._goes_on_at is None
        work = self._work
        # With "pad" and "drop" a batch is read ahead of those that are handed out, which a position must not count.
        ahead = SpanWork(work.spans) if isinstance(work, SpanWork) else work
        self._iterator = Reading(self._reader, self._epoch_pieces, ahead)

    def _open(self) -> Iterator[Taken]:
        """For uneven="pad": this worker's part once more, from the beginning."""
        return Reading(self._reader, self._epoch_pieces, SpanWork(self._part(whole(len(self._epoch_pieces)))))

    def _again(self) -> Any:
        if not self._is_padding:
            self._is_padding = True
            for _ in range(self._num_padded):  # a former run or life has had them
                super()._again()
        self._num_padded += 1
        return super()._again()._replace(finished=[], begun=None)  # pieces that were finished before

    def _hand_out(self, taken: Taken) -> None:
        if isinstance(self._work, SpanWork):  # a queue's has noted it when it was read
            self._work.note(taken.finished, taken.begun)

    def to_evaluate(self) -> Iterator[Batch]:
        reader, pieces = self._reader, self._epoch_pieces
        reading = Reading(reader, pieces, SpanWork(self._part(whole(len(pieces)))))
        is_unread = self._count == 0 and self._goes_on_at is None
        try:
            for taken in reading:
                yield taken.batch
        finally:
            reading.close()
        self._tell_problems()
        if is_unread:
            self._go_to(self._epoch + 1, 0)

    def _agreed(self) -> dict[str, Any]:
        return {**super()._agreed(), "queue": self._queue is not None}

    def _settings(self) -> dict[str, Any]:
        files = self._reader.files
        return {"data": files.fingerprint, "shuffle": files.shuffle, "seed": files.seed}


class FileDataset(IterableDataset[Batch]):
    """This worker's batches of an epoch; every process of a loader reads its own part of them, with its own threads.

    `DataLoader(dataset, batch_size=None, num_workers=2)`: what it yields are batches already. `set_epoch` says which
    epoch the next loop reads, also to processes that live on (`persistent_workers`); `fleet.data.shard(loader)` calls
    it by itself.
    """

    def __init__(self, reader: PieceReader, worker_index: int, worker_num: int, epoch: int) -> None:
        self._reader = reader
        self._worker_index, self._worker_num = worker_index, worker_num
        self._epoch = torch.tensor([epoch]).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Which epoch the next loop reads."""
        self._epoch[0] = epoch

    def __iter__(self) -> Iterator[Batch]:
        pieces = self._reader.files.epoch(int(self._epoch[0]))
        spans = divide(whole(len(pieces)), pieces.sizes, self._worker_index, self._worker_num)
        if (process := get_worker_info()) is not None:
            spans = divide(spans, pieces.sizes, process.id, process.num_workers)
        with closing(Reading(self._reader, pieces, SpanWork(spans))) as reading:
            for taken in reading:
                yield taken.batch
        self._reader.problems.finish()

    def state_dict(self) -> dict[str, Any]:
        """NotSupportedError: the processes of a loader read ahead, and only they know how far."""
        raise NotSupportedError(
            "the position of files in a DataLoader is not known here: its processes read ahead of what it yields; take "
            "that of fleet.data.shard(loader), or loop over fleet.data.files(...) itself"
        )

    def load_state_dict(self, _: Any) -> None:
        """As `state_dict`."""
        self.state_dict()
