"""`fleet.Checkpoint`: saves and loads the state of a training run, of a collective job or beside servers."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Self

from torch import nn
from torch.optim import Optimizer

from fleet.checkpoint import Best, StepFolders
from fleet.collective.model import DistributedModel
from fleet.errors import CheckpointError, FleetError, UsageError, UsageTypeError
from fleet.job.stopping import stopping
from fleet.jobfiles.ending import note_the_end
from fleet.observe.tracing.part import part
from fleet.ps.job.patience import is_durable
from fleet.runtime.training.elements import CheckpointSource
from fleet.runtime.training.objects import RunObjects, Stateful, together
from fleet.runtime.training.runs import CollectiveRun, Run, Saving
from fleet.runtime.training.served_run import ServedRun, is_served
from fleet.runtime.training.writer import Keep

log = logging.getLogger(__name__)


class Checkpoint:
    """The checkpoints of a run, FOLDER/step-00000100 and so on, on a file system that all processes share.

        checkpoint = fleet.Checkpoint(
            "checkpoints", model=model, optimizer=optimizer, scheduler=scheduler, data=shard, resume=True
        )
        for step in range(checkpoint.step, num_steps):
            ...
            if step % 100 == 99:
                checkpoint.save(step + 1)       # goes on as soon as the state is copied
        checkpoint.close()                      # returns when the last one is on the disk

    Every worker makes it, with the same arguments, and calls its methods at the same steps; beside servers, after
    `fleet.init_worker()`. `optimizer` is one or, beside servers, a list; `scheduler` is one learning-rate scheduler or
    a list, `data` the position in the data, `extras` anything else by name; all need `state_dict` and
    `load_state_dict`. Of schedulers and extras, worker 0's state is saved for all.

    `keep`: how many of the newest stay. `best`: whether the highest ("max") or the lowest ("min") metric of `save` is
    the best, which stays as well. `full_every`: beside servers, only every so many-th save has all rows; those between
    have what changed since the one before, and stay as long as the whole one that they build on, which `keep` counts.
    `resume`: load the newest now. `background=False`: `save` returns when all is
    written. `timeout_s`: how long nobody may have written a file before a save is given up.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        scheduler: Stateful | Sequence[Stateful] | None = None,
        data: Stateful | None = None,
        extras: Mapping[str, Stateful] | None = None,
        keep: int = 2,
        best: Best | None = None,
        resume: bool = False,
        full_every: int = 1,
        background: bool = True,
        timeout_s: float = 300.0,
    ) -> None:
        if type(keep) is not int or keep < 1:
            raise UsageError(f"keep must be the number of checkpoints to keep, at least 1, got {keep!r}")
        if type(full_every) is not int or full_every < 1:
            raise UsageError(f"full_every must be a whole number of saves, at least 1, got {full_every!r}")
        if not timeout_s > 0:
            raise UsageError(f"timeout_s must be a number of seconds > 0, got {timeout_s!r}")
        if best not in (None, "max", "min"):
            raise UsageError(f"best must be 'max', 'min' or None, got {best!r}")
        self._run = _run_of(model, optimizer, RunObjects.of(scheduler, data, extras or {}), timeout_s)
        self._steps = StepFolders(folder, self._run.CONTENTS)
        self._best: Best | None = best
        self._background = background
        self._run.agree(self._steps, Keep(keep, best, full_every), timeout_s)
        self._run.before_end(self._finish)
        self._saving: Saving | None = None
        self._step = 0
        self._target: int | None = None
        """The step at which all workers save and stop, once they have agreed on it."""
        self._has_said = False
        self._counts_steps = True
        """Whether the script saves by the number of steps that are done, and not by another count."""
        if resume:
            self._load(None, best=False)
        if not is_durable():
            stopping.begin(self._save_and_stop)

    def _save_and_stop(self) -> bool:
        """Between two steps of a worker that was told to stop: whether all is saved now."""
        step = self._run.steps_done()
        if not self._counts_steps:
            self._say_why_not("the script saves by another count than fleet.steps_done()")
        elif self._target is None:
            try:
                self._target = self._run.stop_at(step)
            except FleetError as error:
                self._say_why_not(str(error))
        if self._target is not None and step > self._target:
            self._say_why_not(f"other workers are at step {self._target} and this one is at {step}")
        if step != self._target or self._run.is_mid_step:
            return False
        self.save(step)
        self.close()
        return True

    def _say_why_not(self, why: str) -> None:
        if not self._has_said:
            log.warning("told to save and stop, but nothing is saved: %s", why)
        self._has_said = True

    @property
    def folder(self) -> str:
        """Where the checkpoints are."""
        return str(self._steps.folder)

    @property
    def step(self) -> int:
        """The step that was loaded or saved last; 0 before the first.

        In a worker of a durable job that was started again alone, the step at which it goes on: `fleet.steps_done()`.
        """
        former = self._run.asked()
        if former is not None:
            self._step = former
        return self._step

    @property
    def best_step(self) -> int | None:
        """The step with the best metric of those in the folder; None if none has one."""
        if self._best is None:
            raise UsageError("which metric is the best? Give fleet.Checkpoint best='max' or best='min'")
        return self._steps.best(self._best)

    @part("checkpoint")
    def save(self, step: int, metric: float | None = None) -> None:
        """Copy the state, then write it in the background; the save before it is waited for first.

        `step` is how many steps are done, as `fleet.steps_done()` counts them. `load` gives it back, so it may count
        epochs or samples as well; but a worker of a durable job that was started again knows where it is in steps and
        epochs only. `metric` says how good the step is; worker 0's counts. CheckpointError if the save before this one
        failed.
        """
        if type(step) is not int or not 0 <= step < 10**18:
            raise UsageError(f"save takes the number of steps done, got {step!r}")
        metric = self._checked(metric)
        self._run.refuse_left(f"checkpoint.save({step})")
        self._counts_steps = self._counts_steps and step == self._run.steps_done()
        # Before the wait, which may fail on one worker alone: the others must know the next save by the same number.
        number = self._run.next_save(step)
        if number is None:
            self._step = step
            return
        self.wait()
        try:
            captured = self._run.capture(step)
        except Exception as error:
            if self._run.workers.size > 1:  # the others must not wait for this worker
                with contextlib.suppress(CheckpointError):
                    text = str(error) or repr(error)
                    self._start(self._run.write(number, step, None, text, background=self._background))
            raise
        self._start(self._run.write(number, step, metric, captured, background=self._background))
        self._step = step
        self._run.mark(step)
        if not self._background:
            self.wait()

    def _checked(self, metric: float | None) -> float | None:
        if metric is None:
            return None
        if self._best is None:
            raise UsageError(
                "save(metric=...) needs to know which is the best: give fleet.Checkpoint best='max' or 'min'"
            )
        try:
            value = float(metric)
        except (TypeError, ValueError):
            raise UsageTypeError(f"metric must be a number, got {metric!r}") from None
        if math.isfinite(value):
            return value
        log.warning("the metric is %r: this checkpoint is never the best", value)
        return None

    def _start(self, saving: Saving | None) -> None:
        self._saving = saving
        if saving is None:
            return
        # Before the process group is left, which was registered earlier.
        atexit.register(self._finish)
        note_the_end()

    def wait(self) -> None:
        """Return when the last save is on the disk; CheckpointError on every worker if it could not be written."""
        atexit.unregister(self._finish)
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.finish()

    def _finish(self) -> None:
        with contextlib.suppress(FleetError):  # logged by the thread; an exception here would change nothing
            self.wait()

    def close(self) -> None:
        """`wait`; also done by `fleet.stop_worker()` and when the script ends, where an error can only be logged."""
        stopping.end()
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, step: int | None = None, *, best: bool = False) -> int:
        """Restore the newest complete checkpoint, that of `step`, or the `best`, on every worker.

        Returns its step, or 0 if there is none. Nothing is changed if it does not fit or is damaged: CheckpointError on
        every worker. As many workers as had saved it go on with their own random numbers; one that was not there gets a
        stream derived from worker 0's.
        """
        if best and step is not None:
            raise UsageError(f"load({step!r}, best=True): give a step or best=True, not both")
        self._run.refuse_left("checkpoint.load()")
        self.wait()
        self._load(step, best=best)
        return self.step

    def _load(self, step: int | None, *, best: bool) -> None:
        """Restore what is asked for, unless this worker goes on where a former life was."""
        if (done := self._run.passed_load()) is not None:
            _tell(f"this worker was started again and goes on at step {done}, with the servers as they are")
            return
        workers = self._run.workers
        chosen = together(workers, lambda: self._choose(step, best) if workers.rank == 0 else None)
        chosen = json.loads(workers.gather_bytes(json.dumps(chosen).encode())[0])
        if chosen is not None:
            source, crc = together(workers, lambda: self._open(chosen))
            if len(set(workers.gather_bytes(crc))) > 1:
                raise CheckpointError(f"workers see different files in {source.where}; the file system must be shared")
            self._run.restore(source)
            if workers.rank == 0:
                _tell(f"going on from {source.where}")
        self._step = int(chosen or 0)
        if chosen is not None:
            self._run.set_steps(self._step)
        self._run.mark(self._step)

    def _choose(self, step: int | None, best: bool) -> int | None:
        found = self._steps.complete()
        if best:
            step = self.best_step
            if step is None:
                raise CheckpointError(
                    f"{self.folder} has no checkpoint with a metric; save(step, metric=...) gives one"
                )
            return step
        if step is None:
            self._steps.refuse_headless()
            return found[0] if found else None
        if step not in found:
            there = ", ".join(map(str, found)) or "none"
            raise CheckpointError(f"{self.folder} has no complete checkpoint of step {step!r}; it has {there}")
        return step

    def _open(self, step: int) -> tuple[CheckpointSource, bytes]:
        try:
            where, manifest = self._steps.read(step)
        except CheckpointError as error:
            if self._run.workers.rank == 0 or self._steps.path(step).exists():
                raise
            raise CheckpointError(
                f"{self.folder} is not the folder that worker 0 sees: step {step} is not there; "
                "give a folder on a file system that all machines share"
            ) from error
        return CheckpointSource(where, manifest), str(zlib.crc32(manifest.to_text().encode())).encode()


def _run_of(model: nn.Module, optimizer: Optimizer | Sequence[Optimizer], objects: RunObjects, timeout_s: float) -> Run:
    if is_served(model, optimizer):
        return ServedRun(model, optimizer, objects, timeout_s)
    if not isinstance(model, DistributedModel):
        raise UsageTypeError(f"model must be what fleet.distributed_model() returned, got a {type(model).__name__}")
    if not isinstance(optimizer, Optimizer):
        raise UsageTypeError(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
    return CollectiveRun(model, optimizer, objects)


def _tell(text: str) -> None:
    """A line for whoever starts a run: not a warning, but worth seeing unless logging says otherwise."""
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    log.info("%s", text)
