"""The run of a job with servers: they write the tables and what else they hold, each worker what it alone knows.

A save is one moment of the whole job. Every worker sends what it has queued, and all of them meet; then the servers
copy, while nobody trains, and go on to write beside the workers. In sync mode worker 0 alone waits for the copies: no
step can be complete without it. The folder is committed when all have written.

Where workers come and go, nobody knows who would have to come: worker 0 alone saves, between two steps or by a cut.
"""

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from fleet.checkpoint import Manifest, StepFolders, abort
from fleet.collective.model import DistributedModel
from fleet.errors import CheckpointError, FleetError, NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet.job.stopping import AHEAD
from fleet.nn.sparse import SparseModule
from fleet.ps.together.cutting import CutLostError, cut
from fleet.ps.together.worker_meetings import NotComingError, WorkerMeetings
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.runtime.modules.module_job import ModuleJob
from fleet.runtime.saved import saving
from fleet.runtime.saved.increments import Increment
from fleet.runtime.saved.server_writes import WAS_STARTED_AGAIN, ServerWrites
from fleet.runtime.training.elements import CheckpointSource
from fleet.runtime.training.objects import RunObjects
from fleet.runtime.training.rejoined import Rejoined
from fleet.runtime.training.runs import Run, check_settings, settings_of
from fleet.runtime.training.served_parts import ServedParts, ServedRestore
from fleet.runtime.training.served_writer import ServedWriter, Target
from fleet.runtime.training.writer import Captured, Keep, text_of

log = logging.getLogger(__name__)

COME_AND_GO = "workers come and go in this job (--worker_num A:B)"
UNEVEN = "; workers have had different numbers of batches: count with fleet.steps_done(), or save behind the loop"


def is_served(model: object, optimizer: object) -> bool:
    """Whether servers hold the state of what a user wants to save."""
    several = optimizer if isinstance(optimizer, list | tuple) else (optimizer,)
    return any(isinstance(one, ServerOptimizer) for one in several) or (
        isinstance(model, nn.Module)
        and not isinstance(model, DistributedModel)
        and any(isinstance(one, SparseModule) for one in model.modules())
    )


class ServedRun(Run):
    """A run of a job with servers."""

    CONTENTS = Manifest

    def __init__(
        self, model: nn.Module, optimizer: Optimizer | Sequence[Optimizer], objects: RunObjects, timeout_s: float
    ) -> None:
        several = tuple(optimizer) if isinstance(optimizer, list | tuple) else (optimizer,)
        for one in several:
            if not isinstance(one, ServerOptimizer):
                raise UsageTypeError(
                    f"optimizer must be what fleet.distributed_optimizer() returned, got a {type(one).__name__}"
                )
        optimizers = tuple(one for one in several if isinstance(one, ServerOptimizer))
        job = optimizers[0].job
        assert isinstance(job, ModuleJob), "a ServerOptimizer is made by its job"
        self._job = job
        self._worker = job.worker("fleet.Checkpoint")
        self._parts = ServedParts(self._worker, model, optimizers, objects)
        self._worker.data.save(objects.data)
        self._timeout_s = timeout_s
        name, progress = job.name_meetings("checkpoint"), self._worker.progress
        client = self._worker.client
        self._is_alone = client.job.is_elastic
        if self._is_alone and objects.data is not None:
            raise NotSupportedError(
                f"fleet.Checkpoint(data=...): {COME_AND_GO}, and the queue knows what is read; leave it out"
            )
        self.workers: WorkerMeetings = WorkerMeetings(client, name, timeout_s, progress, is_alone=self._is_alone)
        self._former = None if progress is None else Rejoined(name, self._parts, self.workers, progress)
        self._to: tuple[StepFolders, Keep] | None = None
        self._told_at: int | None = None

    def agree(self, steps: StepFolders, keep: Keep, timeout_s: float) -> None:  # noqa: ARG002 - the meetings have it
        self._parts.optimizations()  # raises where optimizers and model do not belong together
        self.workers.purpose = "fleet.Checkpoint(...)"
        kinds = [type(one.inner).__name__ for one in self._parts.optimizers]
        check_settings(self.workers, [*settings_of(steps, keep, self._parts.objects), *kinds])
        self._to = steps, keep
        self.workers.purpose = "checkpoint.load()"  # from now on, whatever else all do together is a load

    def next_save(self, step: int) -> int | None:
        if self._is_alone and self._parts.index:
            return None
        if self._worker.passing is not None and self._worker.passing.others_pass():
            log.warning(
                "save(%d) is left out: some workers have no batch left in this epoch, and all save together; the next "
                "save that all come to is made",
                step,
            )
            return None
        if self._former is None:
            return super().next_save(step)
        if self._former.is_past("save"):
            return None
        self._former.check(step)
        number = self._former.num_taken("save") - 1
        begin, outcome = f"save/{number}/begin", f"save/{number}/outcome"
        assert self._to is not None
        is_over = self.workers.is_told(outcome, [0])
        if self.workers.is_told(begin) and (is_over or self._parts.index == 0):
            most = self._agree(self.workers.meet(begin, "", f"save({step})"))
            if not is_over and most in self._to[0].complete():  # it was committed, and then worker 0 died
                self.workers.tell(outcome, "")
                is_over = True
        return None if is_over else number

    def passed_load(self) -> int | None:
        return self._worker.done.count.num if self._former is not None and self._former.is_past("load") else None

    def set_steps(self, step: int) -> None:
        self._worker.done.count.go_to(step)

    def steps_done(self) -> int:
        return self._worker.done.count.num

    @property
    def is_mid_step(self) -> bool:
        return self._worker.is_mid_step

    def stop_at(self, step: int) -> int | None:
        """In sync mode nobody may wait here: the others' step may need this worker's next push."""
        workers = self.workers
        if workers.size == 1:
            return step
        is_sync = self._worker.client.job.mode == "sync"
        self._told_at = step if self._told_at is None else self._told_at
        if is_sync:
            workers.tell("stop", str(self._told_at))
            if not workers.is_told("stop", range(workers.size)):
                return None
        told = workers.meet("stop", str(self._told_at), "SIGUSR1, which means save and stop")
        return max(map(int, told)) + (AHEAD if is_sync else 0)

    def mark(self, step: int) -> None:
        if self._former is not None:
            self._former.mark(step)

    def asked(self) -> int | None:
        return None if self._former is None else self._former.asked()

    def before_end(self, finish: Callable[[], None]) -> None:
        self._job.before_leaving.append(finish)

    def capture(self, step: int) -> Captured:
        if self._worker.is_mid_step:
            raise UsageError(
                f"save({step}) comes between backward() and optimizer.step(); save when the update is complete"
            )
        self._worker.policy.flush()
        return self._parts.capture(step)

    def refuse_left(self, call: str) -> None:
        if self._job.worker(call) is not self._worker:
            raise NotReadyError(
                f"{call}: this fleet.Checkpoint was made before fleet.stop_worker(); make another after the "
                "fleet.init_worker() that came then"
            )

    def write(
        self, number: int, step: int, metric: float | None, captured: Captured | str, *, background: bool
    ) -> ServedWriter | None:
        assert self._to is not None
        steps, keep = self._to
        target = Target(self._worker, self.workers, steps, keep, self._timeout_s)
        try:
            writing, step = self._begin(number, step, captured)
        except NotComingError as error:
            if (client := self._worker.client).job.mode == "sync":
                why = f"{error}{UNEVEN if client.num_ended else ''}"
                raise CheckpointError(f"checkpoint step {step} was not written: {why}") from error
            log.warning("save(%d) is left out: %s", step, error)
            return None
        except FleetError as error:
            raise CheckpointError(f"checkpoint step {step} was not written: {error}") from error
        is_sync = self._worker.client.job.mode == "sync"
        failure, writes, topic = "", None, f"save/{number}/copied"
        if self._parts.index == 0:
            try:
                with self.workers.giving_signs(topic), self._between_all_steps():
                    saving.warn_of_lost_state(self._worker, steps.path(step))
                    self._worker.send_kept()
                    increment = self._increment(steps, keep, writing, step)
                    client, made = self._worker.client, None
                    if self._is_alone and not is_sync:
                        made = cut(client, tracked=None if increment is None else increment.tracked)
                    writes = ServerWrites(client, writing, background=background, cut=made, increment=increment)
            except CutLostError as error:
                failure = f"a server {WAS_STARTED_AGAIN}: {error}"
            except Exception as error:
                failure = text_of(error)
            if not is_sync:
                self.workers.tell(topic, failure)
        elif not is_sync:
            try:
                failure = self.workers.meet(topic, "", f"the copy of save({step})", others=[0])[0]
            except FleetError as error:
                failure = text_of(error)
        writer = ServedWriter(target, number, step, metric, writing, failure or captured, writes)
        writer.start()
        return writer

    def _between_all_steps(self) -> AbstractContextManager[None]:
        """Inside, no step of all workers is made; where they do not come and go, none is made without this worker."""
        membership = None if self._worker.progress is None else self._worker.progress.membership
        return nullcontext() if membership is None else membership.between_all_steps()

    def _increment(self, steps: StepFolders, keep: Keep, writing: Path, step: int) -> Increment | None:
        """What this save builds on, which is no older one of its own step; None where every save is whole."""
        if keep.full_every == 1:
            return None
        newest = next((steps.path(one) for one in steps.complete() if one < step), None)
        return Increment(self._worker.client, steps.folder, writing, newest, keep.full_every)

    def _begin(self, number: int, step: int, captured: Captured | str) -> tuple[Path, int]:
        """Wait until every worker has come; returns the folder to write, and the step that it is of.

        CheckpointError on all if one has nothing. Behind a loop, workers that count their own steps may have different
        numbers of them: the step is that of the worker with the most.
        """
        assert self._to is not None
        count = self._worker.done.count
        is_count = count.is_behind_loop and step in (count.num, count.num_own)
        said: dict[str, Any] = {"step": count.num if is_count else step, "is_count": is_count}
        writing: Path | None = None
        try:
            if isinstance(captured, str):
                raise CheckpointError(captured)
            # Where a former life of worker 0 has begun this save, what it said counts.
            is_begun = self._former is not None and self.workers.is_told(f"save/{number}/begin", [0])
            if self._parts.index == 0 and not is_begun:
                writing = self._to[0].begin(said["step"])
                said["path"] = str(writing)
        except FleetError as error:
            said["error"] = str(error)
        try:
            texts = self.workers.meet(f"save/{number}/begin", json.dumps(said), f"save({step})", is_between_steps=True)
            told = [json.loads(text) for text in texts]
            for worker, each in enumerate(told):
                if "error" in each:
                    raise CheckpointError(f"worker {worker}: {each['error']}")
                if each["step"] != told[0]["step"] and not all(one["is_count"] for one in told):
                    raise CheckpointError(
                        f"worker {worker} saves step {each['step']} while worker 0 saves step {told[0]['step']}; "
                        "save the same step on every worker"
                    )
        except BaseException:
            if writing is not None:
                abort(writing)
            raise
        return Path(told[0]["path"]), self._agree(texts)

    def _agree(self, texts: Sequence[str]) -> int:
        """The step of a save by what all workers have said, from which those that count steps count on."""
        told = [json.loads(text) for text in texts]
        most = max(int(each["step"]) for each in told)
        if all(each["is_count"] for each in told):
            self._worker.done.count.follow(most)
        return most

    def restore(self, source: CheckpointSource) -> None:
        if self._is_alone:
            raise NotSupportedError(
                f"checkpoint.load(): {COME_AND_GO}, and others train meanwhile; load it with one number"
            )
        ServedRestore(self._parts, source).run(self.workers)
