"""`fleet.steps`: the numbers of the steps of a script with data of its own, which goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.api import fleet
from fleet.checks import count_of
from fleet.data.shards.workers import Workers
from fleet.observe.metrics.steps import steps as metrics


class Steps:
    """Counts up to `end`, from as many steps as were done when the loop begins. One loop reads it once."""

    def __init__(self, end: int) -> None:
        progress = Workers(fleet, "fleet.steps").progress
        self._end = count_of("end", end)
        self._next: int | None = None
        self._place = None if progress is None else progress.add(self)

    def __len__(self) -> int:
        return max(0, self._end - self._begin())

    def __iter__(self) -> Iterator[int]:
        if self._place is not None:
            self._place.is_over(0)  # takes up the position of a former life, if there was one
        if self._next is None:
            self._next = fleet.steps_done()
        yield from metrics.data(self._numbers() if self._place is None else self._place.watched(self._numbers()))

    def _begin(self) -> int:
        return fleet.steps_done() if self._next is None else self._next

    def _numbers(self) -> Iterator[int]:
        while (number := self._begin()) < self._end:
            self._next = number + 1
            yield number

    def state_dict(self) -> dict[str, Any]:
        """The position: which step comes next."""
        return {"epoch": 0, "step": self._begin()}

    def settings(self) -> dict[str, Any]:
        """Nothing: the count may have another end."""
        return {}

    def go_on_at(self, state: Mapping[str, Any]) -> None:
        """Take up the position of a former life of this worker."""
        self._next = int(state["step"])


def steps(end: int) -> Steps:
    """The numbers of the steps that are left until there are `end`, for scripts that do not loop over `fleet.data`.

    It begins with `fleet.steps_done()`: with 0, behind a loaded `fleet.Checkpoint`, or in a durable job where a worker
    was killed. What is done between two numbers is one step, however often optimizers step. Make it after
    `fleet.init_worker()` and after the `fleet.Checkpoint`.

        for step in fleet.steps(1000):
            ids, labels = batch_of(step)
            ...
    """
    return Steps(end)
