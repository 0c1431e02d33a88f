"""The first step of a training script, or of a loop of our own: what it shows about the model.

Behind it the script of `fleetrun plan` ends at once: no `finally`, no `with` and no atexit handler of it runs, so that
nothing is saved over what an earlier run has left. What it had written into open files is flushed before.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import nn
from torch.optim import Optimizer

from fleet.collective.model import DistributedModel
from fleet.collective.optimizer import CollectiveOptimizer
from fleet.ps.worker.optimizer import ServerOptimizer
from fleet.runtime.saved import saving
from fleet.strategy import DistributedStrategy
from fleet_tools.looking import model_facts
from fleet_tools.looking.forward_calls import ForwardCalls, StepTimes
from fleet_tools.looking.model_facts import machine_here
from fleet_tools.looking.saved_bytes import SavedBytes
from fleet_tools.planner.facts import Measured, Workload

if TYPE_CHECKING:
    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.ps.worker.worker import Worker
    from fleet.runtime.modules.module_job import ModuleJob


@dataclass(frozen=True)
class AfterBackward:
    """What backward has left, before the optimizer steps."""

    gradient_bytes: int
    peak_bytes: int
    reached_at: float
    lookups: list[Lookup]


class FirstStep:
    """Counts and notes from the moment it is made; `finish` makes the facts when the step is reached."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._device = next((one.device for one in model.parameters()), torch.device("cpu"))
        self._module = model.module if isinstance(model, DistributedModel) else model
        self._calls = ForwardCalls(model, self._device)
        self._saved = SavedBytes(self._module)
        self._saved.start()

    def finish(
        self,
        optimizer: Optimizer,
        strategy: DistributedStrategy,
        worker: Worker | None,
        step: Callable[[], Any],
        others: Sequence[Optimizer] = (),
    ) -> Workload:
        """Do the script's step, repeat it to see how long one takes, and say what was seen. Changes the model.

        Of `others`, the optimizers that have not stepped, those of this model count too: their state is estimated.
        """
        seen = self._look(worker)
        self.stop()
        step()
        times, notes = self._times(optimizer, strategy, step, seen)
        inner, own = _inner(optimizer), {id(one) for one in self._module.parameters()}
        later = [one for one in map(_inner, others) if any(id(it) in own for it in _parameters(one))]
        all_inner = [inner, *later]
        if later:
            names = ", ".join(type(one).__name__ for one in later)
            notes.append(f"this step was that of {type(inner).__name__}, the first to be called; {names} would follow")
        job = None if worker is None else worker.client.job
        dense, more = model_facts.dense_facts(self._module, all_inner, job)
        activations = self._saved.most_bytes
        if seen.peak_bytes:
            activations = max(activations, seen.peak_bytes - seen.gradient_bytes)
        stats = [] if worker is None else saving.stats(worker)
        caches = {} if worker is None else worker.hot.sizes
        return Workload(
            model=type(self._module).__name__,
            optimizer=" and ".join(type(one).__name__ for one in all_inner),
            batch_size=self._calls.batch_size or 1,
            is_collective=worker is None,
            tables=() if job is None else model_facts.table_facts(job, seen.lookups, caches),
            dense=dense,
            measured=Measured(
                device=self._device.type,
                threads=torch.get_num_threads(),
                forward_s=times.forward_s,
                backward_s=times.backward_s,
                update_s=times.update_s,
                is_warm=times.is_warm,
                parameter_bytes=sum(one.nbytes for one in model_facts.trained(self._module)),
                gradient_bytes=seen.gradient_bytes,
                state_bytes=model_facts.measured_state(inner),
                activation_bytes=activations,
                peak_bytes=seen.peak_bytes,
                process_bytes=model_facts.process_peak(),
                table_bytes=sum(table["bytes"] for server in stats for table in server["tables"].values()),
            ),
            block=self._saved.block(),
            switches=self._switches(strategy),
            mode=str(strategy.mode),
            notes=(*notes, *more),
        )

    def stop(self) -> None:
        """Count and note no more; idempotent."""
        self._saved.stop()
        self._calls.stop()

    def _switches(self, strategy: DistributedStrategy) -> tuple[str, ...]:
        """The switches of the strategy; autocast of the script's own is as good as `amp`."""
        own = model_facts.switches_of(strategy)
        return (*own, "amp") if self._calls.has_autocast and "amp" not in own else own

    def _look(self, worker: Worker | None) -> AfterBackward:
        """Note what backward has left."""
        reached_at = self._calls.now()
        peak = 0
        if self._device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self._device) - self._calls.before_bytes
        lookups = [] if worker is None else list(worker.used)
        return AfterBackward(model_facts.measured_gradients(self._module), peak, reached_at, lookups)

    def _times(
        self, optimizer: Optimizer, strategy: DistributedStrategy, step: Callable[[], Any], seen: AfterBackward
    ) -> tuple[StepTimes, list[str]]:
        """The times of repeated steps, or of the first one where it cannot be repeated, with a note that says why."""
        if not self._calls.calls:
            why = "the model was not called as model(...), so forward and backward were not timed"
            return self._calls.first_times(0.0, seen.reached_at), [why]

        def stepped() -> None:
            if isinstance(self._model, DistributedModel):
                self._model.scale_loss(
                    torch.zeros((), device=self._device)
                )  # float16 needs a scaled loss in every step
            step()

        least = strategy.gradient_merge_configs.k_steps if strategy.gradient_merge else 0
        try:
            return self._calls.again(stepped, optimizer.zero_grad, least), []
        except Exception as error:  # the user's model: it may raise anything, and the first step has its times
            at = self._calls.now()
            step()
            why = f"the step could not be repeated ({type(error).__name__}: {error}); times are those of the first"
            return self._calls.first_times(self._calls.now() - at, seen.reached_at), [why.replace("\n", " ")]


def _inner(optimizer: Optimizer) -> Optimizer:
    """The optimizer that has the state."""
    return optimizer.inner if isinstance(optimizer, CollectiveOptimizer | ServerOptimizer) else optimizer


def _parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


class PlannedScript:
    """A script that runs for the sake of its plan; `told` is the file that gets the facts."""

    def __init__(self, told: str) -> None:
        self._told = Path(told)
        self._looker: FirstStep | None = None
        self._num_models = 0
        self._optimizers: list[Optimizer] = []

    def see_model(self, model: nn.Module) -> None:
        """Look at the model that will be trained; of several the plan is that of the last, and says so."""
        if self._looker is not None:
            self._looker.stop()
        self._looker = FirstStep(model)
        self._num_models += 1

    def see_optimizer(self, optimizer: Optimizer, strategy: DistributedStrategy, job: ModuleJob | None) -> None:
        """Have the first `optimizer.step()` be the end of the script."""
        own_step = optimizer.step
        self._optimizers.append(optimizer)

        def step(_optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> NoReturn:
            if closure is not None:
                with torch.enable_grad():
                    closure()
            worker = None if job is None else job.worker("optimizer.step()")
            self._end(optimizer, strategy, worker, own_step)

        optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]  # a method: schedules wrap it

    def _end(
        self, optimizer: Optimizer, strategy: DistributedStrategy, worker: Worker | None, step: Callable[[], Any]
    ) -> NoReturn:
        facts: dict[str, Any] = {"machine": asdict(machine_here())}
        if self._looker is not None:
            others = [one for one in self._optimizers if one is not optimizer]
            found = self._looker.finish(optimizer, strategy, worker, step, others)
            if self._num_models > 1:
                one = f"the script trains {self._num_models} models; this plan is that of the last, a {found.model}"
                found = replace(found, notes=(*found.notes, one))
            facts["workload"] = found.to_plain()
        partial = self._told.with_suffix(".partial")
        partial.write_text(json.dumps(facts))
        partial.replace(self._told)
        flush_files()
        os._exit(0)


def flush_files() -> None:
    """Hand what open files have buffered to the system, standard output among them."""
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    opened = [one for one in gc.get_objects() if issubclass(type(one), kinds)]  # isinstance asks the object
    for file in (sys.stdout, sys.stderr, *sorted(opened, key=lambda one: not isinstance(one, io.TextIOWrapper))):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it
            file.flush()
