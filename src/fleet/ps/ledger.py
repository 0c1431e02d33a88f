"""Which pushes a server has taken, so that one that is sent again is not applied again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fleet.errors import CommunicationError, NotReadyError

# How many pushes of one worker may be taken ahead of one that is still missing.
WINDOW = 1000


@dataclass
class _Worker:
    """What one worker has sent in its present life."""

    incarnation: int = 0
    upto: int = 0
    """Every sequence number up to this one was taken."""
    later: set[int] = field(default_factory=set)
    """Those taken beyond it: a worker may have several pushes under way."""
    steps: int = 0
    """How many of its steps were taken, in all its lives."""
    position: bytes = b""
    """What came with the last of them."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Ledger:
    """For each worker, the (incarnation, sequence) of the pushes that were taken. Safe to use from many threads."""

    def __init__(self, num_workers: int) -> None:
        self._workers = [_Worker() for _ in range(num_workers)]

    def is_present(self, worker: int, incarnation: int) -> bool:
        """Whether this is the worker's present life, as far as it has said so."""
        return incarnation >= self._workers[worker].incarnation

    def check(self, worker: int, incarnation: int) -> None:
        """CommunicationError unless this is the worker's present life."""
        self._refuse_others(worker, self._workers[worker], incarnation)

    def greet(self, worker: int, incarnation: int) -> bool:
        """Note that a worker has started; returns whether in a new life. Older lives are refused from now on."""
        entry = self._workers[worker]
        with entry.lock:
            if incarnation < entry.incarnation:
                self._refuse_others(worker, entry, incarnation)
            if incarnation == entry.incarnation:
                return False
            entry.incarnation, entry.upto, entry.later = incarnation, 0, set()
            return True

    def standing(self, worker: int) -> tuple[int, bytes]:
        """How many steps of a worker were taken, in all its lives, and what came with the last of them."""
        entry = self._workers[worker]
        return entry.steps, entry.position

    def note(self, worker: int, steps: int, position: bytes) -> None:
        """Note how far a worker is; inside `once`."""
        if steps:
            self._workers[worker].steps, self._workers[worker].position = steps, position

    @contextmanager
    def once(self, worker: int, incarnation: int, sequence: int) -> Iterator[bool]:
        """Whether this push is to be applied now; it counts as taken unless the block raises.

        Pushes of one worker run one after the other: while one is applied, its repetition waits here.
        """
        entry = self._workers[worker]
        with entry.lock:
            self._refuse_others(worker, entry, incarnation)
            if sequence <= entry.upto or sequence in entry.later:
                yield False
                return
            yield True
            entry.later.add(sequence)
            if len(entry.later) > WINDOW:  # whatever is missing before them was refused and will not come any more
                entry.upto = min(entry.later) - 1
            while entry.upto + 1 in entry.later:
                entry.upto += 1
                entry.later.remove(entry.upto)

    @staticmethod
    def _refuse_others(worker: int, entry: _Worker, incarnation: int) -> None:
        if incarnation < entry.incarnation:
            raise CommunicationError(
                f"worker {worker} was started again; this process is its former life and must end. If it was not, two "
                f"processes are worker {worker}: give each an index (trainer_id) of its own"
            )
        if incarnation > entry.incarnation:
            raise NotReadyError(f"worker {worker} has not declared its job; call fleet.init_worker() first")
