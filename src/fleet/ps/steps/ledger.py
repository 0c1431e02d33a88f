"""Which pushes and other numbered changes a server has made, so that one that is sent again is not made again."""

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import NotReadyError, OutdatedError, UsageError
from fleet.ps.wire.taken_pushes import TakenPushes

# How many pushes of one worker may be taken ahead of one that is still missing.
WINDOW = 1000
# How many former lives of one worker are remembered, so that their calls are refused.
NUM_FORMER = 64
# How many answers of one worker are remembered: it makes one change after the other, but for pushes.
NUM_ANSWERS = 8


@dataclass
class _Worker:
    """What one worker has sent in its present life."""

    incarnation: int = 0
    life: int = 0
    """The number that it drew when it started."""
    former: list[int] = field(default_factory=list)
    """The numbers that its former lives had drawn, the newest last."""
    steps: int = 0
    """How many of its steps were taken, in all its lives."""
    former_steps: int = 0
    """How many of them in its former lives."""
    position: bytes = b""
    """The position that came with the last of them."""
    upto: int = 0
    """Every sequence number up to this one was taken."""
    later: set[int] = field(default_factory=set)
    """Sequence numbers taken beyond it: a worker may have several pushes under way."""
    answers: dict[int, bytes] = field(default_factory=dict)
    """The answers to its last changes other than pushes, by their numbers."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def taken(self) -> TakenPushes:
        return TakenPushes(self.incarnation, self.upto, frozenset(self.later))


class Ledger:
    """For each worker, the (incarnation, sequence) of the pushes that were taken. Safe to use from many threads."""

    def __init__(self, num_workers: int) -> None:
        self._workers = [_Worker() for _ in range(num_workers)]

    def check(self, worker: int, incarnation: int) -> None:
        """OutdatedError unless this is the worker's present life."""
        self._refuse_others(worker, self._workers[worker], incarnation)

    def is_life(self, worker: int, life: int) -> bool:
        """Whether the worker's present life has drawn this number."""
        return self._workers[worker].life == life

    def incarnation_of(self, worker: int, life: int) -> int:
        """The incarnation that a life may be: the present one, or, for a life that is new, the next.

        OutdatedError if that life is over: its declaration came after its end.
        """
        entry = self._workers[worker]
        if life in entry.former:
            self._refuse_others(worker, entry, entry.incarnation - 1)
        return entry.incarnation if entry.life == life and entry.incarnation else entry.incarnation + 1

    def is_new(self, worker: int, incarnation: int) -> bool:
        """Whether a worker begins a new life; OutdatedError if this life is over."""
        entry = self._workers[worker]
        if incarnation < entry.incarnation:
            self._refuse_others(worker, entry, incarnation)
        return incarnation > entry.incarnation

    def greet(self, worker: int, incarnation: int, life: int = 0) -> bool:
        """Note that a worker has started; returns whether in a new life. Older lives are refused from now on."""
        entry = self._workers[worker]
        with entry.lock:
            if not self.is_new(worker, incarnation):
                return False
            if entry.life:
                entry.former = [*entry.former, entry.life][-NUM_FORMER:]
            entry.incarnation, entry.life, entry.upto, entry.later, entry.answers = incarnation, life, 0, set(), {}
            entry.former_steps = entry.steps
            return True

    def incarnation(self, worker: int) -> int:
        """The worker's present life; takes no lock."""
        return self._workers[worker].incarnation

    def taken(self, worker: int) -> TakenPushes:
        """Which pushes of a worker's present life were taken."""
        entry = self._workers[worker]
        with entry.lock:
            return entry.taken

    def all_taken(self) -> list[TakenPushes]:
        """The same of every worker."""
        return [self.taken(worker) for worker in range(len(self._workers))]

    def has(self, worker: int, sequence: int) -> bool:
        """Whether a push of a worker's present life was taken; takes no lock."""
        entry = self._workers[worker]
        return sequence in entry.later or sequence <= entry.upto  # in this order: `take` raises the second first

    def history(self, worker: int) -> tuple[int, bytes]:
        """How many steps of a worker were taken, and what came with the last."""
        entry = self._workers[worker]
        return entry.steps, entry.position

    def has_steps(self, worker: int, steps: int) -> bool:
        """Whether former lives of a worker have sent these steps here; 0: a push that is of no step."""
        return 0 < steps <= self._workers[worker].former_steps

    def note(self, worker: int, steps: int, position: bytes) -> None:
        """Note where a worker is after a push that was applied; without a position the one before stays."""
        entry = self._workers[worker]
        entry.steps, entry.position = max(entry.steps, steps), position or entry.position

    def forget_position(self, worker: int) -> None:
        """Forget where a worker was: its number is free for one that begins where nobody was."""
        self._workers[worker].steps, self._workers[worker].position = 0, b""

    def answer(self, worker: int, sequence: int) -> bytes:
        """The answer to a change of the worker's present life; empty if it is not remembered."""
        return self._workers[worker].answers.get(sequence, b"")

    def take(self, worker: int, sequence: int, answer: bytes | None = None) -> None:
        """Note a push as taken, or another change with its answer: read back from a journal, or within `once`."""
        entry = self._workers[worker]
        if sequence <= entry.upto or sequence in entry.later:
            return
        if answer is not None:
            entry.answers = {**dict(list(entry.answers.items())[1 - NUM_ANSWERS :]), sequence: answer}
        entry.later.add(sequence)
        if len(entry.later) > WINDOW:  # whatever is missing before them was refused and will not come any more
            entry.upto = min(entry.later) - 1
        while entry.upto + 1 in entry.later:
            entry.upto += 1
            entry.later.remove(entry.upto)

    def to_json(self, pending: Mapping[int, int]) -> list[dict[str, Any]]:
        """For a snapshot; leaves out `pending`, the push of each worker that was taken but has changed nothing yet."""
        found = []
        for worker, entry in enumerate(self._workers):
            taken = entry.taken.without(pending.get(worker, 0))
            found.append(
                {
                    "incarnation": entry.incarnation,
                    "life": entry.life,
                    "former": entry.former,
                    "steps": entry.steps,
                    "former_steps": entry.former_steps,
                    "position": base64.b64encode(entry.position).decode(),
                    "upto": taken.upto,
                    "later": sorted(taken.later),
                    "answers": {number: base64.b64encode(one).decode() for number, one in entry.answers.items()},
                }
            )
        return found

    def restore(self, saved: list[dict[str, Any]]) -> None:
        """Go on as a snapshot says."""
        for entry, one in zip(self._workers, saved, strict=True):
            entry.incarnation, entry.life, entry.steps = int(one["incarnation"]), int(one["life"]), int(one["steps"])
            entry.former = list(one["former"])
            entry.former_steps = int(one.get("former_steps", 0))
            entry.position = base64.b64decode(one["position"])
            entry.upto, entry.later = int(one["upto"]), set(one["later"])
            entry.answers = {int(number): base64.b64decode(text) for number, text in one.get("answers", {}).items()}

    @contextmanager
    def once(self, worker: int, incarnation: int, sequence: int) -> Iterator[bool]:
        """Whether this push, or other change, is to be made now; it counts as taken unless the block raises.

        Those of one worker run one after the other: while one is made, its repetition waits here.
        """
        entry = self._workers[worker]
        if sequence < 1:
            raise UsageError(f"worker {worker}: pushes and other changes are numbered from 1 on (sequence), got 0")
        with entry.lock:
            self._refuse_others(worker, entry, incarnation)
            if sequence <= entry.upto or sequence in entry.later:
                yield False
                return
            try:
                yield True
            except BaseException:
                left = entry.taken.without(sequence)
                entry.upto, entry.later = left.upto, set(left.later)
                raise
            self.take(worker, sequence)

    @staticmethod
    def _refuse_others(worker: int, entry: _Worker, incarnation: int) -> None:
        if incarnation < entry.incarnation:
            raise OutdatedError(
                f"worker {worker} was started again; this process is its former life and must end. If it was not, two "
                f"processes are worker {worker}: give each an index (trainer_id) of its own"
            )
        if incarnation > entry.incarnation:
            raise NotReadyError(f"worker {worker} has not declared its job; call fleet.init_worker() first")
