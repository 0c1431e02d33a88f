"""What belongs to a run beside servers and is not on them; and a checkpoint that is loaded into both.

It is checked on all workers before the servers change anything.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from fleet.checkpoint import Account, Manifest, read_contents
from fleet.errors import CheckpointError
from fleet.ps.job.spec import JobSpec
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.ps.worker.worker import Worker
from fleet.runtime.saved import saving
from fleet.runtime.training import random_states
from fleet.runtime.training.elements import CheckpointSource, WriteShare
from fleet.runtime.training.objects import RunObjects, damage, together
from fleet.runtime.training.optimizers import Optimization, PlannedOptimizer
from fleet.runtime.training.trees import decode, encode
from fleet.runtime.training.writer import Captured


@dataclass(frozen=True)
class ServedParts:
    """What one worker of a job with servers gives to a checkpoint."""

    worker: Worker
    model: nn.Module
    optimizers: tuple[ServerOptimizer, ...]
    objects: RunObjects

    @property
    def index(self) -> int:
        """The index of this worker."""
        return self.worker.client.worker

    def optimizations(self) -> list[Optimization]:
        """The optimizers' settings, and the state of those that step in the workers."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        steps_alone = self.worker.policy.trains_locally
        owner = self.index if steps_alone else None
        return [
            Optimization(
                names,
                one.inner,
                one.inner,
                self.index,
                owner,
                steps_alone,
                tag,
                is_fixed=True,
                has_state=one.steps_here,
            )
            for tag, one in zip(self.tags(), self.optimizers, strict=True)
        ]

    def tags(self) -> list[str]:
        """The names of the optimizers in a checkpoint."""
        return [f"optimizer{number or ''}" for number in range(len(self.optimizers))]

    def capture(self, step: int) -> Captured:
        """Everything that this worker writes, copied."""
        job = self.worker.client.job
        share = WriteShare(self.index, 1 if job.is_elastic else job.num_workers)

        def add(owner: int) -> Callable[[str, Any], None]:
            return lambda key, tensor: share.add(key, tensor, owner)

        shared: dict[str, Any] = {}
        if self.index == 0:
            shared = {"mode": job.mode, "optimizers": self.tags(), **self.objects.shared(add(0))}
        prefix = f"own/{self.index}"
        random = random_states.collect(self.worker.device)
        own = {
            "num_steps": self.worker.num_steps,
            "random": encode(random, f"{prefix}/random", add(self.index), "the random state"),
            "data": self.objects.position(f"{prefix}/data", add(self.index), self.worker.data.behind),
        }
        for optimization in self.optimizations():
            state_of_all, own_state = optimization.collect(share)
            shared |= state_of_all
            own |= own_state
        return Captured(Account(step, share.forms, (), own, shared), share.copies())


class ServedRestore:
    """Loads one checkpoint into the servers and workers of one run."""

    def __init__(self, parts: ServedParts, source: CheckpointSource) -> None:
        self._parts = parts
        self._source = source
        workers = source.manifest.workers
        self._is_new = parts.index >= len(workers)
        self._own = workers[0 if self._is_new else parts.index]

    def run(self, workers: WorkerMeetings) -> None:
        """Load it; every worker calls this."""
        parts, source = self._parts, self._source
        planned = together(workers, self._plan)
        together(workers, lambda: source.check_files(parts.index, workers.size))
        together(workers, parts.worker.policy.flush)  # nothing that was computed before may reach what is loaded
        together(workers, lambda: self._load_servers(workers))
        if parts.index != 0:
            parts.worker.restart_at(saving.version_of(parts.worker))
        parts.objects.load(workers, source, self._own)

        def change() -> None:
            try:
                for one in planned:
                    source.fill(one.wants)
                    one.apply()
                self._load_the_rest()
            except Exception as error:
                raise CheckpointError(f"{source.where} is half loaded, begin again: {error!r}") from error

        together(workers, change)  # nobody trains before all have loaded

    def _load_servers(self, workers: WorkerMeetings) -> None:
        if self._parts.index != 0:
            return
        worker = self._parts.worker
        # Two more gatherings follow. If all have come to the last, a former life of this worker has loaded it, and the
        # others train on what was loaded.
        if worker.progress is not None and workers.is_told(workers.topic(ahead=3)):
            worker.restart_at(saving.version_of(worker))
            return
        with workers.giving_signs(workers.next_topic):
            saving.load(worker, self._source.folder)

    def _plan(self) -> list[PlannedOptimizer]:
        parts, source = self._parts, self._source
        with damage(source.where):
            saved = source.manifest.shared["optimizers"]
            if len(saved) != len(parts.optimizers):
                raise CheckpointError(
                    f"{source.where} was saved with {len(saved)} optimizers, and this run has {len(parts.optimizers)}; "
                    "give those that it was saved with"
                )
            self._check_job()
            planned = [one.plan(source) for one in parts.optimizations()]
            parts.objects.check(source, self._own, parts.index == 0)
            for owned in (self._own, *source.manifest.workers):
                _ = [owned[name] for name in ("num_steps", "random")]
        return planned

    def _check_job(self) -> None:
        """CheckpointError if tables or other tensors of the model are not as they were saved, before any is loaded."""
        where, job = self._source.where, self._parts.worker.client.job
        saved = JobSpec.from_json(json.dumps(read_contents(self._source.folder, Manifest).job))
        tables = {spec.name: spec for spec in saved.tables}
        for spec in job.tables:
            if (known := tables.get(spec.name)) is None:
                known_names = ", ".join(map(repr, tables)) or "none"
                raise CheckpointError(f"{where} has no table {spec.name!r}; its tables: {known_names}")
            for name, mine, theirs in (
                ("width", spec.width, known.width),
                ("dtype", spec.dtype, known.dtype),
                ("rule", spec.rule.name, known.rule.name),
            ):
                if mine != theirs:
                    raise CheckpointError(
                        f"table {spec.name!r} does not fit {where}: {name} is {mine!r} here and {theirs!r} in the "
                        "checkpoint; declare the table as it was saved"
                    )
        here, there = _shapes(job), _shapes(saved)
        for name, shape in here.items():
            if there.get(name) != shape:
                what = f"{list(there[name])} there and {list(shape)} in this model" if name in there else "not there"
                raise CheckpointError(f"{where}: {name!r} is {what}; load it into the model it is of")

    def _load_the_rest(self) -> None:
        parts, source = self._parts, self._source
        for one in parts.optimizers:
            one.zero_grad()
        if parts.worker.client.job.mode != "sync":  # in sync mode the servers count steps
            parts.worker.go_on_at(int(self._own["num_steps"]))
        if self._is_new:
            random = decode(source.manifest.workers[0]["random"], source.tensor, source.where)
            random_states.derive(random["torch"], parts.index, parts.worker.device)
        else:
            random_states.restore(decode(self._own["random"], source.tensor, source.where), parts.worker.device)


def _shapes(job: JobSpec) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a model beside its tables, wherever it lives."""
    return dict(job.dense.shapes) | {one.name: one.shape for one in job.kept}
