"""What every shard is: an iterable over one worker's batches of an epoch, with a position that can be saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar, Literal

from fleet.data.shards.workers import Workers
from fleet.errors import UsageError, UsageTypeError
from fleet.observe.metrics.steps import steps

Uneven = Literal["pad", "drop", "join"]


def count_in(state: Mapping[str, Any], name: str) -> int:
    """A count of a state, where that of workers is at least 1; UsageError if it is none."""
    count = state[name]
    if isinstance(count, bool) or not isinstance(count, int) or count < (name == "workers"):
        raise UsageError(f"{name} of a reader's state must be a count, got {count!r}; the state is damaged")
    return count


class Shard(ABC):
    """This worker's batches. A loop over it reads to the end of the epoch; the next loop reads the next epoch.

    It is a reader with one position. A loop that is left early leaves the position behind the batch it had in hand, and
    the next loop goes on from there. With `uneven="join"` a loop that has reached the end takes part in the steps of
    the workers that still have batches; one that is left early does not, so all workers leave theirs at the same step.

    Beside servers that is so in sync mode, where steps wait for all, and for loops that train. A loop that reads
    batches and trains on none, to evaluate by hand, waits for nobody. A worker that had no batch at all cannot tell
    which it is, and waits for the others to train, or to come to their end as it has. They come where they can work out
    that it had none: of samples and files. Of streams they cannot, for which there is `to_evaluate`.

    In a collective job positions are compared when a loop begins: a worker that did not load the checkpoint, or has
    read a batch more than the others, is named before anything is trained.
    """

    _kind: ClassVar[str]
    _unit: ClassVar[str]
    """What the position counts, by its name in the state."""
    _same_again: ClassVar[str]
    """What to do about a state that was saved with other settings."""

    def __init__(self, workers: Workers, uneven: Uneven) -> None:
        self._workers = workers
        self._uneven: Uneven = uneven
        self._epoch = 0
        self._count = 0
        self._place = None if workers.progress is None else workers.progress.add(self)

    @property
    def worker(self) -> int:
        """The number of the worker whose batches these are."""
        return self._workers.index

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or is the next to be: how many were read to their end."""
        self._ask()
        return self._epoch

    @property
    def num_done(self) -> int:
        """How many batches of the epoch lie behind this worker's position, also those of a run before this one."""
        self._ask()
        return self._count

    @property
    def _number(self) -> int:
        """Its number among the readers of the script."""
        return 0 if self._place is None else self._place.number

    def _ask(self) -> None:
        """Go to where a former life of this worker was, now that the script wants to know."""
        if self._place is not None:
            self._place.asked()

    @abstractmethod
    def __len__(self) -> int:
        """The number of this worker's batches in a whole epoch. A stream does not know it: TypeError."""

    def __iter__(self) -> Iterator[Any]:
        if self._place is not None and self._place.is_over(self._epoch):  # a former life has read it to its end
            self._go_to(self._epoch + 1, 0)
            return
        if self._workers.is_collective:
            position = {"epoch": self._epoch, self._unit: self._count}
            remedy = "load the same state on every worker, and leave a loop early on all of them at the same step"
            self._workers.compare(position, remedy)
        needs_join, before = self._needs_join(), self._count
        if (passing := self._workers.passing if needs_join else None) is not None:
            trained, some_have_none = passing.trained(), self._some_have_none()
        # A loop that is left early closes this generator: the context sees GeneratorExit and waits for nobody.
        with self._workers.join() if needs_join and self._workers.is_collective else nullcontext():
            yield from steps.data(self._batches() if self._place is None else self._place.watched(self._batches()))
        end = partial(self._end_epoch, self._epoch)
        if passing is None:
            end()
        else:
            passing.end_loop(trained, is_sure=some_have_none or self._count == before, then=end)
        self._go_to(self._epoch + 1, 0)
        if self._place is not None:
            self._place.remember()

    def _end_epoch(self, epoch: int) -> None:
        """An epoch is over for all."""
        if self._place is not None:
            self._place.end_epoch(epoch)

    def to_evaluate(self) -> Iterator[Any]:
        """The batches of a whole epoch for a loop without steps: with `uneven="join"` nobody waits for anybody.

        Also where some were read before, to look at one or by a loop that goes on later: that position stays.
        """
        before = after = self._epoch, self._count
        if self._count:
            self._go_to(self._epoch, 0)
        else:
            after = self._epoch + 1, 0
        is_whole = False
        try:
            yield from self._batches()
            is_whole = True
        finally:
            self._go_to(*(after if is_whole else before))

    def state_dict(self) -> dict[str, Any]:
        """The position, as plain values for JSON, the same on every worker.

        Every batch that was handed out counts, also the one that the loop has in hand: call it after that one's step.
        """
        return {"kind": self._kind, "epoch": self._epoch, self._unit: self._count, **self._settings()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind the last batch that `state` counts; every worker loads it. Other data is refused.

        In a worker that was started again alone, the position that its servers know counts instead.
        """
        self.go_on_at(state)
        self._ask()

    def go_on_at(self, state: Mapping[str, Any]) -> None:
        """Take up a position: what `load_state_dict` does."""
        if not isinstance(state, Mapping):
            raise UsageTypeError(f"load_state_dict takes what state_dict gave, got {type(state).__name__}")
        own = self.state_dict()
        if state.get("kind") != self._kind or not own.keys() <= state.keys():
            found = ", ".join(f"{name} {value!r}" for name, value in state.items()) or "nothing"
            raise UsageError(
                f"the state of a reader of {self._kind} has {', '.join(own)}, this one has {found}; load what "
                "state_dict() of the same data gave"
            )
        self._check_values(state, "epoch", self._unit)
        self._go_to(state["epoch"], state[self._unit])

    def _check_values(self, state: Mapping[str, Any], *counts: str) -> None:
        """UsageError for a state of other settings, or with something else than a count where one belongs."""
        for name, value in self._settings().items():
            if state[name] != value:
                raise UsageError(f"{name} was {state[name]!r} when saved and is {value!r} now; {self._same_again}")
        for name in counts:
            count_in(state, name)

    def _go_to(self, epoch: int, count: int) -> None:
        """Take up a position."""
        self._epoch, self._count = epoch, count

    @abstractmethod
    def _batches(self) -> Iterator[Any]:
        """The batches from the position to the end of the epoch; each is counted before it is handed out."""

    @abstractmethod
    def _needs_join(self) -> bool:
        """Whether some workers may have fewer batches left than others, and the others' steps go on without them."""

    def _some_have_none(self) -> bool:
        """Whether every worker can tell, when a loop begins, that one of them has no batch in it."""
        return False

    def settings(self) -> dict[str, Any]:
        """What is read, as opposed to how far."""
        return {"kind": self._kind, **self._settings()}

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """What must be the same when the state is loaded, or the position would mean something else."""
