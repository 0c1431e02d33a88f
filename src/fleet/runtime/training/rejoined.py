"""What a run beside servers stores with every push of a durable job, so that a worker that is started again goes on.

The servers are ahead of every checkpoint then, and nothing is loaded into them. What the worker itself had comes back
when its loop over the data goes on: schedulers, extras that are a few numbers, settings of the optimizers, the step.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from fleet.errors import FleetError
from fleet.runtime.server_writes import WAS_STARTED_AGAIN
from fleet.runtime.training.objects import Stateful
from fleet.runtime.training.trees import decode, encode

if TYPE_CHECKING:
    from fleet.ps.gathering import Gathering
    from fleet.ps.progress import Progress
    from fleet.runtime.training.served_parts import ServedParts

log = logging.getLogger(__name__)

# An object whose state takes more is not stored with every push.
MAX_CHARS = 4096


class _NoTensorsError(Exception):
    pass


class Rejoined:
    """The small state of a run, as `Progress` keeps it. `marks` says which step the run was at when."""

    def __init__(self, name: str, parts: ServedParts, workers: Gathering, progress: Progress) -> None:
        self._name = name
        self._parts = parts
        self._workers = workers
        self._progress = progress
        self._marks: list[list[int]] = [[0, parts.worker.steps_done]]
        self._stored: Mapping[str, Any] | None = progress.add_part(name, self._state, self._restore)

    def mark(self, step: int) -> None:
        """The run has come to a step, by the script's count."""
        self._marks = [*self._marks[-1:], [step, self._parts.worker.steps_done]]

    def is_past(self, what: str) -> bool:
        """Take a turn at something; whether a former life had done so before its last push."""
        name = f"{self._name}/{what}"
        return self._progress.is_past(name, self._progress.turns.take(name))

    def num_taken(self, what: str) -> int:
        """How many turns there were."""
        return self._progress.turns.num_taken(f"{self._name}/{what}")

    def asked(self) -> None:
        """The script wants to know its step, and will go on from there."""
        if self._stored is not None:
            self._progress.is_asked = True

    def step(self) -> int:
        """The step, by the script's count, at which the former life of this worker was."""
        marks = self._marks if self._stored is None else self._stored["marks"]
        last, at = marks[-1]
        if len(marks) < 2:
            return int(last)
        # A script that counts steps, or samples, has counted as many for each step that was made; one that counts
        # epochs has not come to the next.
        each, rest = divmod(last - marks[0][0], max(1, at - marks[0][1]))
        return int(last) if rest or each < 1 else int(last + each * (self._parts.worker.steps_done - at))

    def _objects(self) -> Iterator[tuple[str, Stateful]]:
        yield from ((f"scheduler {number}", one) for number, one in enumerate(self._parts.objects.schedulers))
        yield from ((f"extras[{name!r}]", one) for name, one in self._parts.objects.extras.items())

    def _state(self) -> dict[str, Any]:
        objects = {name: state for name, one in self._objects() if (state := _small(one, name)) is not None}
        settings = [[_numbers(group) for group in one.inner.param_groups] for one in self._parts.optimizers]
        return {"marks": self._marks, "objects": objects, "settings": settings}

    def _restore(self, stored: Mapping[str, Any]) -> None:
        self._marks = [list(mark) for mark in stored["marks"]]
        for name, one in self._objects():
            if name in stored["objects"]:
                one.load_state_dict(decode(stored["objects"][name], _no_tensor, name))
            else:
                log.warning("%s has a state that is not stored with every push: it begins anew", name)
        for optimizer, groups in zip(self._parts.optimizers, stored["settings"], strict=True):
            for group, settings in zip(optimizer.inner.param_groups, groups, strict=True):
                group.update(settings)
        self._end_save()
        self._stored = None

    def _end_save(self) -> None:
        """Tell those who wait for this worker's part of a save that it will not come."""
        number = self.num_taken("save") - 1
        if number < 0 or self._workers.size == 1:
            return
        rank, what = self._workers.rank, f"worker {self._workers.rank} {WAS_STARTED_AGAIN}"
        said = {f"save/{number}/written": json.dumps({"error": what})}
        if rank == 0:
            said[f"save/{number}/outcome"] = what
        try:
            for topic, text in said.items():
                self._workers.tell(topic, text)  # nothing comes of it where a former life has told
        except FleetError as error:  # those who wait will notice it by themselves
            log.warning("the save that was under way could not be ended: %s", error)


def _small(one: Stateful, name: str) -> Any:
    """The state of an object as JSON; None if it has tensors, or much to say."""
    try:
        state = encode(one.state_dict(), name, _refuse, name)
    except (_NoTensorsError, FleetError):
        return None
    return state if len(json.dumps(state)) <= MAX_CHARS else None


def _refuse(_key: str, _tensor: torch.Tensor) -> None:
    raise _NoTensorsError


def _no_tensor(key: str) -> torch.Tensor:
    raise AssertionError(f"{key} was stored without tensors")


_Numbers = dict[str, bool | int | float]


def _numbers(group: Mapping[str, Any]) -> _Numbers:
    return {name: value for name, value in group.items() if type(value) in (bool, int, float)}
