"""Pieces of an epoch's data, handed out by server 0: each to one worker, once.

A worker numbers its takes of an epoch, in all its lives alike. What take n was answered is remembered. So a take
that is sent again gets the same piece: the answer was lost, or a next life begins at the position of the former. The
pieces of a worker that does not come back go to nobody else: a server does not know which rows were trained on.

Memory is bounded. If there is much to remember, only the newest epochs of a queue are remembered. For older ones it is
known how many pieces each worker had, which is enough to tell it that there are no more.

Near the end of an epoch a slow worker that takes one more piece would hold everybody up. It is told that there are no
more, if faster workers will have done all that is left before it could have done that piece. Among those
that still take pieces the fastest is never told so: everything is handed out.

How fast workers are is measured, not part of a server's state: after a restart everybody is handed pieces until it is
known again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.errors import CommunicationError, NotReadyError, UsageError

if TYPE_CHECKING:
    from fleet.ps.proto import ps_pb2

# How many of the newest epochs of a queue are always remembered; how many epochs of all queues, and how many pieces, as
# long as there is room; and for how many epochs only counts are.
NUM_EPOCHS = 4

NUM_KEPT = 1024
PIECES_KEPT = 200_000
NUM_FORGOTTEN = 4096
MAX_NAME = 200
MAX_PIECES = 10_000_000


SHORTEST_S = 0.05
"""Pieces that take less than this hold up nobody."""
MUCH_SLOWER = 1.5
NUM_MEASURED = 4
"""Takes of a worker before its pace is believed. The first two come at once: one piece is read ahead."""


@dataclass
class _Runner:
    began_at: float
    last_at: float
    num_takes: int = 1
    is_over: bool = False

    @property
    def piece_s(self) -> float | None:
        """Seconds for a piece, if they are known."""
        if self.num_takes < NUM_MEASURED:
            return None
        return (self.last_at - self.began_at) / (self.num_takes - 2)

    def is_running(self, now: float) -> bool:
        """Whether it is likely to come again."""
        piece_s = self.piece_s
        return not self.is_over and piece_s is not None and now - self.last_at < 3 * piece_s + SHORTEST_S


class Pace:
    """How fast each worker goes through one epoch. `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._runners: dict[int, _Runner] = {}

    def note(self, worker: int) -> None:
        """A worker asks for a piece that it has not had."""
        now = self._clock()
        runner = self._runners.get(worker)
        if runner is None:
            self._runners[worker] = _Runner(now, now)
        else:
            runner.num_takes += 1
            runner.last_at = now

    def holds_up(self, worker: int, num_left: int) -> bool:
        """Whether a worker that has asked would end with one more piece after others have done all that is left."""
        now, own = self._clock(), self._runners[worker]
        if own.is_over:
            return True
        others = [
            piece_s
            for index, runner in self._runners.items()
            if index != worker and runner.is_running(now) and (piece_s := runner.piece_s) is not None
        ]
        own_s = own.piece_s
        if own_s is None or own_s < SHORTEST_S or not others or own_s <= MUCH_SLOWER * min(others):
            return False
        # It begins with the piece that it has read ahead; so do the others, who are somewhere inside another one too.
        speed = sum(1 / max(piece_s, 1e-9) for piece_s in others)
        own.is_over = 2 * own_s > (num_left + 1.5 * len(others)) / speed
        return own.is_over


class Key(NamedTuple):
    """One reading of an epoch."""

    queue: str
    epoch: int
    round: int
    """How often the epoch was begun before."""

    def is_after(self, other: Key) -> bool:
        """Whether it is a later reading of the same epoch."""
        return self[:2] == other[:2] and self.round > other.round

    def __str__(self) -> str:
        again = f", begun again {self.round} times," if self.round else ""
        return f"epoch {self.epoch}{again} of the queue {self.queue!r}"


class Extent(NamedTuple):
    """What is handed out: `extra`, in this order, then all from `first` up to `total`, which is excluded."""

    first: int
    total: int
    extra: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.extra) + self.total - self.first

    def __str__(self) -> str:
        more = f" and {len(self.extra)} before them" if self.extra else ""
        return f"pieces {self.first} to {self.total - 1}{more}" if self.first < self.total else f"no pieces{more}"

    def piece(self, place: int) -> int:
        """The piece at a place in the order in which pieces are handed out."""
        num_extra = len(self.extra)
        return self.extra[place] if place < num_extra else self.first + place - num_extra

    def check(self) -> None:
        """UsageError unless it can be handed out."""
        if self.first > self.total or self.total > MAX_PIECES:
            raise UsageError(
                f"a queue hands out pieces `first` to `total`, up to {MAX_PIECES}; got {self.first} and {self.total}"
            )
        if any(one >= after for one, after in pairwise((*self.extra, self.first))):
            raise UsageError("extra pieces of a queue lie before its first, each once, in ascending order")


@dataclass
class _Epoch:
    extent: Extent
    num_out: int = 0
    """How many pieces were handed out."""
    taken: dict[int, list[int]] = field(default_factory=dict)
    """By worker, in the order of its takes."""
    pace: Pace = field(default_factory=Pace)

    @property
    def is_over(self) -> bool:
        return self.num_out >= len(self.extent)


class PieceQueues:
    """The queues of a job. `lock` is held around `changes`, the record of the change in the journal, and `change`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._epochs: dict[Key, _Epoch] = {}
        self._forgotten: dict[Key, dict[int, int] | None] = {}
        """How many pieces each worker had; None if not all had been handed out."""

    def changes(self, worker: int, key: Key, number: int, extent: Extent) -> bool:
        """Whether a request is to change anything; if so, `change` answers it, and else `answer`.

        An error, before anything is written, if it is refused.
        """
        known = self._epochs.get(key)
        if number == 0:
            return self._check_begin(worker, key, extent, known)
        if known is None:
            self._check_late(worker, key, number)
            return False
        num_taken = len(known.taken.get(worker, ()))
        if number > num_taken + 1:
            raise CommunicationError(
                f"worker {worker} asks for take {number} of {key}, but has made {num_taken}; give each process an "
                "index (trainer_id) of its own"
            )
        if number <= num_taken or known.is_over:
            return False
        known.pace.note(worker)
        return not known.pace.holds_up(worker, len(known.extent) - known.num_out)

    def answer(self, worker: int, key: Key, number: int, _: Extent) -> list[int]:
        """The piece of a take, or none if there is none for it; for number 0 all that the worker was handed."""
        known = self._epochs.get(key)
        own = [] if known is None else known.taken.get(worker, [])
        return list(own) if number == 0 else own[number - 1 : number]

    def change(self, worker: int, key: Key, number: int, extent: Extent) -> list[int]:
        """Begin an epoch, or hand out the next piece; then the same as `answer`."""
        if number == 0:
            self._epochs[key] = _Epoch(extent)
            self._make_room()
        else:
            known = self._epochs[key]
            known.taken.setdefault(worker, []).append(known.extent.piece(known.num_out))
            known.num_out += 1
        return self.answer(worker, key, number, extent)

    def _check_begin(self, worker: int, key: Key, extent: Extent, known: _Epoch | None) -> bool:
        if any(worker in one.taken for other, one in self._epochs.items() if other.is_after(key)):
            raise UsageError(
                f"worker {worker} was started again in an epoch to which its script had gone back ({key}), where a "
                "queue cannot tell what it has read; start the job again from a checkpoint"
            )
        if not extent.total:
            if known is None:
                self._check_late(worker, key, 0)
            return False
        extent.check()
        if not key.queue or len(key.queue) > MAX_NAME:
            raise UsageError(f"the name of a queue has 1 to {MAX_NAME} letters, got {len(key.queue)}")
        if known is not None and known.extent != extent:
            raise UsageError(
                f"worker {worker} begins {key} with {extent}, another worker has begun it with {known.extent}; every "
                "worker must read the same files, with the same settings, from the same checkpoint"
            )
        if key in self._forgotten:
            self._check_late(worker, key, 1)
            return False
        return known is None

    def _check_late(self, worker: int, key: Key, number: int) -> None:
        """An error unless all pieces of an epoch that is forgotten were handed out, and this take is a further one."""
        if key not in self._forgotten:
            raise NotReadyError(f"worker {worker} comes to {key}, which nobody has begun")
        counts = self._forgotten[key]
        if counts is None or number <= counts.get(worker, 0):
            raise _too_late(worker, key)

    def _make_room(self) -> None:
        num_pieces = sum(known.num_out for known in self._epochs.values())
        num_epochs = Counter(key.queue for key in self._epochs)
        for key in list(self._epochs):  # the oldest first
            if num_pieces <= PIECES_KEPT and len(self._epochs) <= NUM_KEPT:
                break
            if num_epochs[key.queue] > NUM_EPOCHS:
                num_epochs[key.queue] -= 1
                num_pieces -= self._forget(key)
        while len(self._epochs) > NUM_KEPT:  # of many readers
            self._forget(next(iter(self._epochs)))
        while len(self._forgotten) > NUM_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]

    def _forget(self, key: Key) -> int:
        """Keep only counts of an epoch; how many pieces were forgotten."""
        gone = self._epochs.pop(key)
        counts = {worker: len(own) for worker, own in gone.taken.items()}
        self._forgotten[key] = counts if gone.is_over else None
        return gone.num_out

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {
            "epochs": [
                (*key, known.extent.first, known.extent.total, known.extent.extra, known.num_out, _pairs(known.taken))
                for key, known in self._epochs.items()
            ],
            "forgotten": [
                (*key, None if counts is None else _pairs(counts)) for key, counts in self._forgotten.items()
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on as a snapshot says."""
        self._epochs = {
            Key(queue, epoch, again): _Epoch(
                Extent(first, total, tuple(extra)), num_out, {worker: list(own) for worker, own in taken}
            )
            for queue, epoch, again, first, total, extra, num_out, taken in saved["epochs"]
        }
        self._forgotten = {
            Key(queue, epoch, again): None if counts is None else dict(counts)
            for queue, epoch, again, counts in saved["forgotten"]
        }


def read_take(header: ps_pb2.TakeRequest.Header) -> tuple[int, Key, int, Extent]:
    """The arguments of `PieceQueues` in a request: who asks, for what, the number of the take, and what there is."""
    extent = Extent(header.first, header.total, tuple(header.extra))
    return header.caller.worker, Key(header.queue, header.epoch, header.round), header.number, extent


def _pairs(by_worker: dict[int, Any]) -> Sequence[tuple[int, Any]]:
    return sorted(by_worker.items())


def _too_late(worker: int, key: Key) -> CommunicationError:
    return CommunicationError(
        f"worker {worker} comes to {key}, which the others have left far behind and which is forgotten; start the job "
        "again from its last checkpoint"
    )
