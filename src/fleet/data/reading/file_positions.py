"""Positions in files: what one worker has still to read, and what is left when those of all workers are put together.

A worker's position is small and its own. With those of all workers of a job, any other number of them can go on:
every row that none of them has taken is read once.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.data.reading.piece_order import FileSet, PieceSpan, divide, rows_taken_of, spans_from, spans_of, whole
from fleet.data.shards.base import count_in
from fleet.errors import UsageError


@dataclass(frozen=True)
class Handed:
    """What a worker has taken from a queue of pieces: those it has read to their end, by epoch, and those begun."""

    done: Mapping[int, int]
    """As bits. Of the present epoch and the ones before it: another worker may still be in one of those."""
    begun: Mapping[int, int]
    """The piece of the present epoch that is not read to its end, if any, with the rows taken."""
    num_done: int = 0
    """How many of the pieces that this job has handed to it in the present epoch are read to their end."""


@dataclass(frozen=True)
class Position:
    """Where one of `workers` workers is, in the middle of an epoch or before its first batch."""

    epoch: int
    count: int
    worker: int
    workers: int
    rest: Sequence[PieceSpan]
    """What the worker has still to read in the epoch; with a queue, what all of them had when it was begun."""
    later: Mapping[int, Sequence[PieceSpan]] = field(default_factory=dict)
    """What all workers have to read of epochs to come, of which a run before this one has read something."""
    handed: Handed | None = None
    padded: int = 0
    """How many batches the worker has read again since it ran out, while others had more."""

    def state(self) -> dict[str, Any]:
        """As plain values for JSON."""
        handed = None
        if self.handed is not None:
            handed = {
                "done": {str(epoch): _packed(bits) for epoch, bits in self.handed.done.items()},
                "begun": [list(item) for item in self.handed.begun.items()],
                "num_done": self.handed.num_done,
            }
        return {
            "epoch": self.epoch,
            "batches": self.count,
            "worker": self.worker,
            "workers": self.workers,
            "rest": [list(span) for span in self.rest],
            "later": {str(epoch): [list(span) for span in spans] for epoch, spans in self.later.items()},
            "handed": handed,
            "padded": self.padded,
        }

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Position:
        """From a state; UsageError if it is damaged."""
        state = {"padded": 0, **state}  # versions before 0.2 did not count them
        padded = count_in(state, "padded")
        if state["worker"] >= state["workers"]:
            raise UsageError(f"a state of worker {state['worker']} of {state['workers']} is damaged")
        try:
            later = {int(epoch): spans_from(spans, "later") for epoch, spans in state["later"].items()}
            handed = None if state["handed"] is None else _handed_from(state["handed"])
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise UsageError(f"the state of a reader of files is damaged: {error!r}") from error
        rest = spans_from(state["rest"], "rest")
        return cls(state["epoch"], state["batches"], state["worker"], state["workers"], rest, later, handed, padded)


def _handed_from(stored: Mapping[str, Any]) -> Handed:
    done = {int(epoch): _unpacked(bits) for epoch, bits in stored["done"].items()}
    return Handed(done, {int(piece): int(taken) for piece, taken in stored["begun"]}, int(stored["num_done"]))


def _packed(bits: int) -> str:
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


def _unpacked(text: str) -> int:
    return int.from_bytes(base64.b64decode(text, validate=True), "little")


def in_order(positions: Sequence[Position]) -> list[Position]:
    """The positions of all workers of a job by worker; UsageError if one is missing, there twice, or of another job."""
    if not positions:
        raise UsageError("there are no states to load; give those of all workers that saved them")
    num = positions[0].workers
    by_worker: dict[int, Position] = {}
    for one in positions:
        if one.workers != num:
            raise UsageError(f"these are states of different jobs: of {num} workers and of {one.workers}")
        if one.worker in by_worker:
            raise UsageError(f"the state of worker {one.worker} of {num} is there twice; give each worker's once")
        by_worker[one.worker] = one
    if missing := [worker for worker in range(num) if worker not in by_worker]:
        raise UsageError(
            f"the state of worker {missing[0]} of {num} is missing; what it has read is not known without: load those "
            "of all workers that saved"
        )
    return [by_worker[worker] for worker in range(num)]


def together(positions: Sequence[Position], files: FileSet) -> dict[int, list[PieceSpan]]:
    """What is left for all workers together, by epoch: from the first that somebody is in to the last known of."""
    epochs = [one.epoch for one in positions]
    last = max([*epochs, *(epoch for one in positions for epoch in one.later)])
    return {epoch: _left_of(epoch, positions, files) for epoch in range(min(epochs), last + 1)}


def _left_of(epoch: int, positions: Sequence[Position], files: FileSet) -> list[PieceSpan]:
    pieces = files.epoch(epoch)
    behind = [one for one in positions if one.epoch < epoch]
    there = [one for one in positions if one.epoch == epoch]
    of_all = behind[0].later.get(epoch) if behind else there[0].rest if there and there[0].handed else None
    if of_all is None:
        of_all = whole(len(pieces))
    if positions[0].handed is None:
        left: dict[int, int] = {}
        for one in positions:
            if one.epoch == epoch:
                left |= rows_taken_of(one.rest)
            elif one.epoch < epoch:
                left |= rows_taken_of(divide(of_all, pieces.sizes, one.worker, one.workers))
    else:
        left = rows_taken_of(of_all)
        for one in positions:
            if one.epoch >= epoch:
                _take_handed(left, one, epoch)
    if any(piece >= len(pieces) for piece in left):
        raise UsageError(
            f"the state speaks of piece {max(left)} of epoch {epoch}, which has {len(pieces)}; it is damaged"
        )
    return spans_of(left)


def _take_handed(left: dict[int, int], position: Position, epoch: int) -> None:
    """Leave out of `left` what a worker has done of an epoch with a queue."""
    assert position.handed is not None
    done = position.handed.done.get(epoch)
    if done is None:
        raise UsageError(
            f"worker {position.worker} was in epoch {position.epoch} and another still in epoch {epoch}: what each "
            "has read of that is not known any more; load a checkpoint in which they were nearer to each other"
        )
    for piece in [piece for piece in left if done >> piece & 1]:
        del left[piece]
    if position.epoch == epoch:
        left.update({piece: rows for piece, rows in position.handed.begun.items() if piece in left})
