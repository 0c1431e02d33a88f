"""Pieces of an epoch's data, handed out by server 0: each to one worker, once.

A worker numbers its takes of an epoch, in all its lives alike. What take n was answered is remembered. So a take
that is sent again gets the same piece: the answer was lost, or a next life begins at the position of the former. The
pieces of a worker that does not come back go to nobody else: a server does not know which rows were trained on.

Memory is bounded. If there is much to remember, only the newest epochs of a queue are remembered. For older ones it is
known how many pieces each worker had, which is enough to tell it that there are no more.

Where workers come and go (`PieceQueues.is_elastic`), one that leaves hands back what it has not read, and others get
that first. So an epoch is over for all when every piece is trained on: a worker that has read all of its own says that
it is idle, and asks again until another piece is left for it, or everybody who was handed one is idle.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet.ps.meetings.pace import Pace
from fleet.ps.proto import ps_pb2

# How many of the newest epochs of a queue are always remembered; how many epochs of all queues, and how many pieces, as
# long as there is room; and for how many epochs only counts are.
NUM_EPOCHS = 4

NUM_KEPT = 1024
PIECES_KEPT = 200_000
NUM_FORGOTTEN = 4096
MAX_NAME = 200
MAX_PIECES = 10_000_000


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
    """How many pieces were handed out, apart from those that came back."""
    taken: dict[int, list[int]] = field(default_factory=dict)
    """By worker, in the order of its takes."""
    back: list[int] = field(default_factory=list)
    """Pieces that workers have handed back, and nobody has taken since."""
    rows_taken: dict[int, int] = field(default_factory=dict)
    """How many rows of pieces that were handed back were trained on then."""
    idle: set[int] = field(default_factory=set)
    """Workers that have trained on all that they were handed."""
    breaks: dict[int, list[int]] = field(default_factory=dict)
    """After how many pieces each worker was idle, or began a new life: there no batch has rows of both sides."""
    lives: dict[int, int] = field(default_factory=dict)
    """The incarnation of each worker that has taken the last of its pieces."""
    pace: Pace = field(default_factory=Pace)

    @property
    def is_out(self) -> bool:
        """Whether there is nothing to hand out."""
        return self.num_out >= len(self.extent) and not self.back

    @property
    def awaited(self) -> list[int]:
        """The workers that still read what they were handed."""
        return sorted(self.taken.keys() - self.idle)

    def come_and_gone(self) -> dict[str, Any]:
        """For a snapshot: what there is where workers come and go."""
        kept = {"rows_taken": _pairs(self.rows_taken), "breaks": _pairs(self.breaks), "lives": _pairs(self.lives)}
        return {"back": self.back, "idle": sorted(self.idle), **kept}

    def is_resumed(self, worker: int, life: int) -> bool:
        """Whether a worker that begins now ends a batch with what a former life took, and that is not yet noted."""
        return self.lives.get(worker) != life and self.ends_batch(worker)

    def ends_batch(self, worker: int) -> bool:
        """Whether it is not yet noted that a batch ends with what a worker was handed so far, which is something."""
        num_taken = len(self.taken.get(worker, ()))
        return num_taken > 0 and num_taken not in self.breaks.get(worker, ())

    def end_batch(self, worker: int) -> None:
        """Note that a worker makes a batch of what is left of all that it was handed so far."""
        if self.ends_batch(worker):
            self.breaks.setdefault(worker, []).append(len(self.taken[worker]))

    def hand_out(self, worker: int, life: int) -> None:
        """Give a worker the next piece."""
        if self.back:
            piece = self.back.pop(0)
        else:
            piece = self.extent.piece(self.num_out)
            self.num_out += 1
        self.taken.setdefault(worker, []).append(piece)
        self.lives[worker] = life
        self.idle.discard(worker)


class PieceQueues:
    """The queues of a job. `lock` is held around `changes`, the record of the change in the journal, and `change`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_elastic = False
        """Whether workers come and go."""
        self._epochs: dict[Key, _Epoch] = {}
        self._forgotten: dict[Key, dict[int, int] | None] = {}
        """How many pieces each worker had; None if not all had been handed out."""

    def changes(self, worker: int, key: Key, number: int, extent: Extent, is_idle: bool = False, life: int = 0) -> bool:
        """Whether a request is to change anything; if so, `change` answers it, and else `answer`.

        An error, before anything is written, if it is refused.
        """
        known = self._epochs.get(key)
        if number == 0:
            is_new = self._check_begin(worker, key, extent, known)
            return is_new or (self.is_elastic and known is not None and known.is_resumed(worker, life))
        if known is None:
            self._check_late(worker, key, number)
            return False
        num_taken = len(known.taken.get(worker, ()))
        if number > num_taken + 1:
            raise CommunicationError(
                f"worker {worker} asks for take {number} of {key}, but has made {num_taken}; give each process an "
                "index (trainer_id) of its own"
            )
        if number <= num_taken:
            return False
        if known.is_out:
            return is_idle and worker in known.taken and worker not in known.idle
        known.pace.note(worker)
        return is_idle or not known.pace.holds_up(worker, len(known.extent) - known.num_out + len(known.back))

    def answer(
        self, worker: int, key: Key, number: int, _: Extent, is_idle: bool = False, __: int = 0
    ) -> ps_pb2.TakeReply.Header:
        """The piece of a take, or none if there is none for it; for number 0 all that the worker was handed."""
        known = self._epochs.get(key)
        if known is None:
            return ps_pb2.TakeReply.Header(is_over=is_idle)
        own = known.taken.get(worker, [])
        pieces = own if number == 0 else own[number - 1 : number]
        reply = ps_pb2.TakeReply.Header(pieces=pieces)
        if number == 0:
            reply.breaks.extend(known.breaks.get(worker, ()))
        if self.is_elastic:
            reply.rows_taken.extend(known.rows_taken.get(piece, 0) for piece in pieces)
        if is_idle and known.is_out:
            reply.awaited.extend(known.awaited)
            reply.is_over = not reply.awaited
        return reply

    def change(
        self, worker: int, key: Key, number: int, extent: Extent, is_idle: bool = False, life: int = 0
    ) -> ps_pb2.TakeReply.Header:
        """Begin an epoch, hand out the next piece, or note that a worker is idle; then the same as `answer`."""
        if number == 0 and (begun := self._epochs.get(key)) is not None:
            begun.end_batch(worker)
        elif number == 0:
            self._epochs[key] = _Epoch(extent)
            self._make_room()
        if number == 0:
            return self.answer(worker, key, number, extent, is_idle)
        known = self._epochs[key]
        if is_idle:
            known.end_batch(worker)
        if known.is_out:
            known.idle.add(worker)
        else:
            known.hand_out(worker, life)
        return self.answer(worker, key, number, extent, is_idle)

    def leave(self, worker: int) -> None:
        """A worker has finished, maybe inside an epoch: nobody waits for what it was handed."""
        for known in self._epochs.values():
            if worker in known.taken:
                known.idle.add(worker)

    def hand_back(self, worker: int, told: Sequence[ps_pb2.LeaveRequest.HandedBack]) -> None:
        """A worker leaves: what it has not trained on is for others, and nothing of it is remembered by its number.

        `told`: how far it is in the epochs that it reads. Of those it does not speak of, it has trained on all that it
        was handed if it is idle there, and else on nothing.
        """
        by_key = {Key(one.queue, one.epoch, one.round): one for one in told}
        for key, known in self._epochs.items():
            own = known.taken.pop(worker, [])
            said = by_key.get(key)
            if said is not None or worker not in known.idle:
                left = own[0 if said is None else said.num_done :]
                known.back += left
                if left and said is not None and said.rows_taken:
                    known.rows_taken[left[0]] = said.rows_taken
            known.idle.discard(worker)
            known.breaks.pop(worker, None)
            known.lives.pop(worker, None)
        for counts in self._forgotten.values():
            if counts is not None:
                counts.pop(worker, None)

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
        self._forgotten[key] = counts if gone.is_out else None
        return gone.num_out

    def to_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {
            "epochs": [
                (*key, *known.extent, known.num_out, _pairs(known.taken), known.come_and_gone())
                for key, known in self._epochs.items()
            ],
            "forgotten": [
                (*key, None if counts is None else _pairs(counts)) for key, counts in self._forgotten.items()
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on as a snapshot says."""
        self._epochs = {}
        none: dict[str, Any] = {"back": (), "idle": (), "rows_taken": (), "breaks": ()}  # in journals of before
        for *key, first, total, extra, num_out, taken, others in ((*one, none)[:9] for one in saved["epochs"]):
            made = _Epoch(Extent(first, total, tuple(extra)), num_out, {worker: list(own) for worker, own in taken})
            made.back, made.idle = list(others["back"]), set(others["idle"])
            made.rows_taken, made.breaks = dict(others["rows_taken"]), dict(others["breaks"])
            made.lives = dict(others.get("lives", ()))
            self._epochs[Key(*key)] = made
        self._forgotten = {
            Key(queue, epoch, again): None if counts is None else dict(counts)
            for queue, epoch, again, counts in saved["forgotten"]
        }


def read_take(header: ps_pb2.TakeRequest.Header) -> tuple[int, Key, int, Extent, bool, int]:
    """The arguments of `PieceQueues` in a request: who asks, for what, its number, what there is, and which life."""
    extent = Extent(header.first, header.total, tuple(header.extra))
    key = Key(header.queue, header.epoch, header.round)
    return header.caller.worker, key, header.number, extent, header.is_idle, header.caller.incarnation


def _pairs(by_number: dict[int, Any]) -> Sequence[tuple[int, Any]]:
    return sorted(by_number.items())


def _too_late(worker: int, key: Key) -> CommunicationError:
    return CommunicationError(
        f"worker {worker} comes to {key}, which the others have left far behind and which is forgotten; start the job "
        "again from its last checkpoint"
    )
