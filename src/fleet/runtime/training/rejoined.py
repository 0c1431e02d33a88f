"""What a run beside servers stores with every push of a durable job, so that a worker that is started again goes on.

The servers are ahead of every checkpoint then, and nothing is loaded into them. What the worker itself had is of the
moment in which its data goes on: schedulers, extras that are a few numbers, settings of the optimizers, random numbers,
the step. It comes back when the `fleet.Checkpoint` is made, so that the script sees it at once, and again when the loop
over the data goes on: until then the script may have drawn numbers, or stepped a scheduler for epochs that are done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from fleet.errors import FleetError, UsageError
from fleet.runtime.saved.server_writes import WAS_STARTED_AGAIN
from fleet.runtime.training.objects import Stateful
from fleet.runtime.training.random_states import StreamChanges
from fleet.runtime.training.trees import decode, encode

if TYPE_CHECKING:
    from fleet.ps.together.worker_meetings import WorkerMeetings
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.runtime.training.served_parts import ServedParts

log = logging.getLogger(__name__)

# An object whose state takes more is not stored with every push.
MAX_CHARS = 4096
REMEDY = "let save() count steps, as fleet.steps_done() does, or epochs of data=, and keep other counts in extras="


class _NoTensorsError(Exception):
    pass


class Rejoined:
    """The small state of a run, as `ScriptProgress` keeps it."""

    def __init__(self, name: str, parts: ServedParts, workers: WorkerMeetings, progress: ScriptProgress) -> None:
        self._name = name
        self._parts = parts
        self._workers = workers
        self._progress = progress
        self._random = StreamChanges(parts.worker.device)
        # At the last save or load: the script's count, Fleet's count of steps, epochs done, the steps made here.
        self._known = [0, 0, 0, 0]
        self._was_told = False  # whether the script asked for the step of the former life
        self._warned: set[str] = set()
        self._stored: Mapping[str, Any] | None = progress.add_part(name, self._state, self._restore)
        if self._stored is not None:
            self._take_up(self._stored)

    def mark(self, step: int) -> None:
        """Note that the run has come to a step, by the script's count."""
        self._known = self._now(step)

    def check(self, step: int) -> None:
        """A script that counts something else is warned; UsageError if it was told where to go on, and did not."""
        now = self._now(step)
        if step in now[1:] or "step" in self._warned:
            return
        self._warned.add("step")
        text = f"save({step}) comes after {now[1]} steps, by Fleet's count of what is done with one batch"
        if self._was_told:
            raise UsageError(f"{text}, and this worker was started again: its script has lost its place; {REMEDY}")
        log.warning("%s: if this worker is killed, its next life cannot tell where the script was; %s", text, REMEDY)

    def _now(self, step: int) -> list[int]:
        count = self._parts.worker.done.count
        return [step, count.num, self._epoch(), count.num_own]

    def _epoch(self) -> int:
        """How many epochs of the data are done."""
        epoch = getattr(self._parts.objects.data, "epoch", None)
        return epoch if isinstance(epoch, int) else -1

    def is_past(self, what: str) -> bool:
        """Take a turn at something; whether a former life had done so before its last push."""
        name = f"{self._name}/{what}"
        return self._progress.is_past(name, self._progress.turns.take(name))

    def num_taken(self, what: str) -> int:
        """How many turns there were."""
        return self._progress.turns.num_taken(f"{self._name}/{what}")

    def asked(self) -> int | None:
        """The step of the former life, from which the script goes on; None without a former life.

        UsageError if nobody knows it: if what the script has counted is neither steps nor epochs.
        """
        if self._stored is None:
            return None
        self._progress.data_asked()
        self._was_told = True
        step, count, epochs, own = self._known
        if step not in (count, epochs, own):
            raise UsageError(
                f"this worker was started again behind {self._progress.num_steps} steps, and nobody knows where that "
                f"is by the count of its script, which called save({step}) after {count} steps; {REMEDY}"
            )
        if step in (count, own):
            return self._progress.num_steps - (0 if step == count else self._progress.num_steps_of_others)
        return self._epoch()

    def _objects(self) -> Iterator[tuple[str, Stateful]]:
        yield from ((f"scheduler {number}", one) for number, one in enumerate(self._parts.objects.schedulers))
        yield from ((f"extras[{name!r}]", one) for name, one in self._parts.objects.extras.items())

    def _state(self) -> dict[str, Any]:
        objects: dict[str, Any] = {}
        for name, one in self._objects():
            if (state := _small(one, name)) is not None:
                objects[name] = state
            elif name not in self._warned:
                self._warned.add(name)
                log.warning(
                    "%s has tensors, or more than %d characters to say: it is in checkpoints only, and begins anew if "
                    "this worker is killed and started again",
                    name,
                    MAX_CHARS,
                )
        settings = [[_numbers(group) for group in one.inner.param_groups] for one in self._parts.optimizers]
        return {
            "known": self._known,
            "objects": objects,
            "settings": settings,
            "random": self._random.changed(),
        }

    def _take_up(self, stored: Mapping[str, Any]) -> None:
        """Give every object, optimizer and random stream the state that it had."""
        self._known = list(stored["known"])
        for name, one in self._objects():
            if name in stored["objects"]:
                one.load_state_dict(decode(stored["objects"][name], _no_tensor, name))
        for optimizer, groups in zip(self._parts.optimizers, stored["settings"], strict=True):
            for group, settings in zip(optimizer.inner.param_groups, groups, strict=True):
                group.update(settings)
        self._random.restore(stored["random"])

    def _restore(self, stored: Mapping[str, Any]) -> None:
        """Give everything its state again where the former life was: until then the script may have changed it."""
        self._take_up(stored)
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
                self._workers.tell(topic, text)  # no effect where a former life has told
        except FleetError as error:  # those who wait will notice it by themselves
            log.warning("the save that was under way could not be ended: %s", error)


def _small(one: Stateful, name: str) -> Any:
    """The state of an object as JSON; None if it has tensors, or is too long."""
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
