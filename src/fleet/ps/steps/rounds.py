"""Synchronous steps on a server: gradients wait here until every worker's have come."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence, Set
from typing import Any

from fleet.errors import CommunicationError, OutdatedError, UsageError
from fleet.ps.held.requests import PushedUpdate


class Rounds:
    """The pushes of the present step, by worker. The caller locks.

    A step is complete when every worker that has not left has pushed it. Its updates come out in the order of the
    workers, whatever order they came in: sums of floats depend on it.
    """

    def __init__(self, num_workers: int, version: int = 0, *, is_elastic: bool = False, follows: bool = False) -> None:
        """`is_elastic`: workers come and go, and none is there before it has come.

        `follows`: then server 0 says whose pushes a step has, and this one does no step without its word.
        """
        self._num_workers = num_workers
        self._follows = is_elastic and follows
        self._since: dict[int, int] | None = {} if is_elastic else None
        """Where workers come and go: those that steps wait for, and the first step that does."""
        self._begun = 0
        """A step that began a batch."""
        self._present = set(() if is_elastic else range(num_workers))
        self.has_finished = not is_elastic
        """Whether a worker has left because it was done: then nobody else is to come."""
        self.absent: set[int] = set()
        """Workers that server 0 has gone on without: they are present, but not waited for until they come back."""
        self.participants: list[int] = []
        """Whose pushes the last step had."""
        self.passed: list[int] = []
        """Which of them passed: they have no batch left, while others have."""
        self.num_ended = 0
        """How many steps had passes only."""
        self._expected: frozenset[int] | None = None
        """Whose pushes the present step has, if server 0 has said so; None: those of all that are not absent."""
        self.gone: set[int] = set()
        """Workers that have ended without taking leave: their steps will not come, and none is done without them."""
        self._updates: dict[int, PushedUpdate] = {}
        self._claims: dict[int, PushedUpdate] = {}
        """Pushes that are being written down, and will be added: none that does not go with them is begun."""
        self.squared_norm: float | None = None
        """The squared norm of this server's part of the mean, where a job limits it; None: not all have pushed."""
        self.sum = -1, 0.0
        """A step, and the squared norm of its mean on all servers: the last that is known."""
        self.began = 0.0
        """When the first push of the present step came, on the clock of `time.perf_counter`."""
        self.version = version
        """The number of complete steps, which is the step that is collected now."""
        self.num_dropped = 0
        """How often a step was dropped."""

    def add(self, update: PushedUpdate) -> None:
        """Take the gradients of a worker of the present step."""
        self.check(update)
        if not self._updates:
            self.began = time.perf_counter()
        self._updates[update.worker] = update

    def claim(self, update: PushedUpdate) -> None:
        """Keep a place for a push that is being written down, until `release`."""
        self.check(update)
        self._claims[update.worker] = update

    def release(self, update: PushedUpdate) -> None:
        """The push has been added, or was not written down."""
        self._claims.pop(update.worker, None)

    def check(self, update: PushedUpdate) -> None:
        """Raise if a push does not belong to the present step."""
        if update.step != self.version:
            raise OutdatedError(
                f"worker {update.worker} pushed step {update.step}, but the workers are at step {self.version}; "
                "a worker that starts again must begin at the others' step"
            )
        if update.worker in self._updates or self._claims.get(update.worker, update) is not update:
            raise CommunicationError(
                f"worker {update.worker} pushed step {update.step} twice; give each process an index (trainer_id) of "
                "its own"
            )
        here = (*self._updates.values(), *self._claims.values())
        other = next((one for one in here if one.groups), update)  # all that are here agree
        if update.groups and other.groups != update.groups:
            raise UsageError(
                f"step {update.step}: workers {other.worker} and {update.worker} step different optimizers; every "
                "worker must step them in the same order"
            )

    def waiting(self, workers: Collection[int] | None = None) -> list[PushedUpdate]:
        """The pushes that have come for the present step, in the order of the workers: all, or those of some."""
        return [self._updates[worker] for worker in sorted(self._updates if workers is None else workers)]

    def waiting_of(self, worker: int) -> PushedUpdate | None:
        """The push of a worker for the present step, if it has come."""
        return self._updates.get(worker)

    def expect(self, step: int, participants: Collection[int]) -> None:
        """Server 0 has done a step with the pushes of these workers, and so does this one."""
        if step == self.version:
            self._expected = frozenset(participants)

    def join(self, worker: int) -> None:
        """Let in a worker that has started, maybe again: what it pushed in a former life does not count."""
        self.withdraw(worker)
        self._present.add(worker)
        self.gone.discard(worker)
        self.absent.discard(worker)

    def leave(self, worker: int, *, is_unfinished: bool = False, is_drained: bool = False) -> None:
        """Let a worker go that has finished, or is drained: steps go on without it, and what it has pushed counts.

        One that is unfinished has ended too, but steps do not go on without it.
        """
        if is_unfinished:
            self.gone.add(worker)
        else:
            self._present.discard(worker)
            self.has_finished |= not is_drained
            self.leave_steps(worker)

    @property
    def is_deserted(self) -> bool:
        """Whether no worker is left, and none will come."""
        return self._present <= self.gone and self.has_finished

    @property
    def unpushed(self) -> int:
        """The next step that nobody has pushed."""
        return self.version + bool(self._updates)

    def join_steps(self, worker: int, step: int, every: int = 1) -> int:
        """Have steps wait for a worker from this one on, unless they do already; the first that will.

        A batch makes `every` steps: it is the first of the others' next batch.
        """
        assert self._since is not None
        if not self._since:
            self._begun = step
        return max(self._since.setdefault(worker, step + (self._begun - step) % max(1, every)), self.version)

    def leave_steps(self, worker: int) -> None:
        """Have no step wait for a worker until it joins them again; what it has pushed counts."""
        if self._since is not None:
            self._since.pop(worker, None)

    def missing(self) -> list[int]:
        """The workers whose gradients of this step have not come."""
        if self._expected is not None:
            return sorted(self._expected - self._updates.keys())
        present: Set[int] = self._present
        if self._since is not None:
            present = {worker for worker, first in self._since.items() if first <= self.version}
        return sorted(present - self.absent - self._updates.keys())

    @property
    def num_present(self) -> int:
        """How many workers are there."""
        return len(self._present)

    def away_of(self, workers: Set[int]) -> set[int]:
        """The workers among these that have left or ended otherwise."""
        left = workers - self._present if len(self._present) < self._num_workers else set()
        return {*left, *(workers & self.gone)}

    def pushed(self) -> Set[int]:
        """The workers whose gradients of this step have come."""
        return self._updates.keys()

    def complete(self) -> list[PushedUpdate] | None:
        """The updates of the present step if it is complete; then the next one begins when `advance` is called."""
        if self._updates and not self.missing() and not (self._follows and self._expected is None):
            workers = self._updates.keys() if self._expected is None else self._expected
            return [self._updates[worker] for worker in sorted(workers)]
        return None

    def withdraw(self, worker: int) -> None:
        """Forget what a worker has pushed of the present step: it will be sent again."""
        if self._updates.pop(worker, None) is not None:
            self.squared_norm, self.sum = None, (-1, 0.0)

    def pending(self) -> dict[int, int]:
        """The sequence numbers, by worker, of the pushes of the present step."""
        return {worker: update.sequence for worker, update in self._updates.items()}

    def drop(self) -> None:
        """Forget the present step: it could not be applied, or a checkpoint took its place."""
        self._updates.clear()
        self._expected, self.squared_norm, self.sum = None, None, (-1, 0.0)
        self.num_dropped += 1

    def note(self, updates: Sequence[PushedUpdate]) -> None:
        """Note whose pushes the step has that is applied now."""
        self.participants = [update.worker for update in updates]
        self.passed = [update.worker for update in updates if update.is_pass]
        self.num_ended += len(self.passed) == len(updates)

    def advance(self) -> None:
        """Begin the next step: the present one has been applied."""
        self._updates.clear()
        self._expected = self.squared_norm = None
        self.version += 1

    def to_json(self) -> dict[str, Any]:
        """For a snapshot; the pushes of the present step are not in it, and will be sent again."""
        return {
            "version": self.version,
            "present": sorted(self._present),
            "gone": sorted(self.gone),
            "absent": sorted(self.absent),
            "participants": self.participants,
            "passed": self.passed,
            "num_ended": self.num_ended,
            "has_finished": self.has_finished,
            "since": None if self._since is None else sorted(self._since.items()),
            "begun": self._begun,
            "sum": self.sum,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on as a snapshot says."""
        self.version, self._present, self.gone = int(saved["version"]), set(saved["present"]), set(saved["gone"])
        self.absent, self.participants = set(saved["absent"]), list(saved["participants"])
        self.passed, self.num_ended = list(saved.get("passed", ())), int(saved.get("num_ended", 0))
        self.has_finished = bool(saved.get("has_finished", True))
        self._since = None if saved.get("since") is None else dict(saved["since"])
        self._begun = int(saved.get("begun", 0))
        step, squared_norm = saved.get("sum", (-1, 0.0))
        self.sum = int(step), float(squared_norm)
