"""What `fleet.Checkpoint` asks of a run, and the collective run, which writes all of its state itself."""

import itertools
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import torch.distributed as dist
from torch.optim import Optimizer

from fleet.checkpoint import Contents, StepFolders, TrainingManifest
from fleet.collective.agree import world
from fleet.collective.model import DistributedModel
from fleet.errors import UsageError
from fleet.job.stopping import AHEAD
from fleet.observe.metrics.steps import steps
from fleet.runtime.training.collective_parts import Restore, RunParts
from fleet.runtime.training.elements import CheckpointSource
from fleet.runtime.training.objects import RunObjects, RunWorkers
from fleet.runtime.training.save_store import SaveStore
from fleet.runtime.training.writer import Captured, CheckpointWriter, Destination, Keep


class Saving(Protocol):
    """A save that is being written."""

    def finish(self) -> None:
        """Wait for its end; CheckpointError on every worker if it could not be written."""


class Run(ABC):
    """A training run on one of its workers; every worker makes the same calls."""

    CONTENTS: type[Contents]
    """What the last file of its checkpoints says."""
    workers: RunWorkers
    _num_saves = 0

    @abstractmethod
    def agree(self, steps: StepFolders, keep: Keep, timeout_s: float) -> None:
        """Note where checkpoints go; UsageError on every worker if one has been given something else."""

    def refuse_left(self, call: str) -> None:  # noqa: B027 - most go on to the end of the script
        """Raise NotReadyError, which names the user's call, if this worker has left the run."""

    @abstractmethod
    def capture(self, step: int) -> Captured:
        """Copy what this worker writes of a step."""

    @abstractmethod
    def write(
        self, number: int, step: int, metric: float | None, captured: Captured | str, *, background: bool
    ) -> Saving | None:
        """Begin to write what was captured, as the `number`th save; a text says why this worker has nothing.

        None if the save is left out, since workers have left that would be needed; a warning has said so.
        Not in `background`, what this worker does not write itself is written before this returns.
        """

    def next_save(self, step: int) -> int | None:  # noqa: ARG002 - most have one life only
        """The number of the save of a step; None if a former life of this worker has made it, or nobody can."""
        self._num_saves += 1
        return self._num_saves - 1

    def passed_load(self) -> int | None:
        """How many steps are done, if a former life of this worker has loaded here and trained since; None: load."""
        return None

    @abstractmethod
    def set_steps(self, step: int) -> None:
        """Have `fleet.steps_done()` count on from the step that was loaded."""

    def mark(self, step: int) -> None:  # noqa: B027 - most have one life only
        """Note the step that was loaded or saved."""

    @abstractmethod
    def steps_done(self) -> int:
        """How many steps lie behind this worker."""

    @abstractmethod
    def stop_at(self, step: int) -> int | None:
        """The step at which all workers save and stop, as this one was told to at `step`; None: not known yet."""

    @property
    def is_mid_step(self) -> bool:
        """Whether there are gradients that no update has come after."""
        return False

    def asked(self) -> int | None:
        """The step at which the script goes on where its former life was; None if it had none."""
        return None

    def before_end(self, finish: Callable[[], None]) -> None:  # noqa: B027 - most have nothing that ends earlier
        """Have `finish` called before what the run needs to write goes, if that is before the script ends."""

    @abstractmethod
    def restore(self, source: CheckpointSource) -> None:
        """Load a checkpoint; CheckpointError on every worker, and nothing changes, if it does not fit."""


def check_settings(workers: RunWorkers, settings: Sequence[object]) -> str:
    """Raise UsageError on every worker if one has other settings; returns a name for what all have agreed on."""
    told = [json.loads(text) for text in workers.gather_bytes(json.dumps([settings, secrets.token_hex(8)]).encode())]
    for worker, (others, _) in enumerate(told):
        for mine, theirs in itertools.zip_longest(told[0][0], others, fillvalue="nothing"):
            if mine != theirs:
                raise UsageError(
                    f"fleet.Checkpoint: worker {worker} has {theirs!r} where worker 0 has {mine!r}; "
                    "give the same folder and parts on every worker"
                )
    return str(told[0][1])


def settings_of(steps: StepFolders, keep: Keep, objects: RunObjects) -> list[object]:
    """What must be the same on every worker."""
    return [str(steps.folder), keep.newest, keep.full_every, f"best {keep.best}", *objects.names()]


class CollectiveRun(Run):
    """A run of a collective job."""

    CONTENTS = TrainingManifest

    def __init__(self, model: DistributedModel, optimizer: Optimizer, objects: RunObjects) -> None:
        self.workers = world()
        self._parts = RunParts(model, optimizer, objects, self.workers.rank, self.workers.size)
        self._to: Destination | None = None
        self._has_told = False

    def agree(self, steps: StepFolders, keep: Keep, timeout_s: float) -> None:
        store = None
        if keep.full_every > 1:
            raise UsageError(
                f"fleet.Checkpoint: full_every={keep.full_every} is for rows on servers, of which a collective job has "
                "none; leave it out"
            )
        if self.workers.size > 1:
            name = check_settings(self.workers, settings_of(steps, keep, self._parts.objects))
            store = SaveStore(dist.distributed_c10d._get_default_store(), name)
        self._to = Destination(steps, keep, self.workers.rank, self.workers.size, store, timeout_s)

    def capture(self, step: int) -> Captured:
        return self._parts.capture(step)

    def write(
        self,
        number: int,
        step: int,
        metric: float | None,
        captured: Captured | str,
        *,
        background: bool,  # noqa: ARG002 - this worker writes all of it
    ) -> CheckpointWriter:
        assert self._to is not None
        writer = CheckpointWriter(self._to, number, step, captured, metric)
        writer.start()
        return writer

    def restore(self, source: CheckpointSource) -> None:
        Restore(self._parts, source).run(self.workers)

    def steps_done(self) -> int:
        return steps.count.num

    def stop_at(self, step: int) -> int | None:
        if self.workers.size == 1:
            return step
        store = dist.PrefixStore("fleet-stop", dist.distributed_c10d._get_default_store())
        if not self._has_told:
            store.set(str(self.workers.rank), str(step))
            self._has_told = True
        names = [str(rank) for rank in range(self.workers.size)]
        return max(int(store.get(name)) for name in names) + AHEAD if store.check(names) else None

    def set_steps(self, step: int) -> None:
        steps.count.go_to(step)
