"""`fleetrun plan`, the half of it in the script's process: at its first step the facts are written, and it ends.

It ends at once: no `finally`, no `with` and no atexit handler of the script runs, so that nothing is saved over what
an earlier run has left. What it had written into files that are still open is flushed before.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import nn
from torch.optim import Optimizer

from fleet.runtime.planning.first_step import FirstStep
from fleet.runtime.planning.model_facts import machine_here
from fleet.strategy import DistributedStrategy

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker
    from fleet.runtime.modules.module_job import ModuleJob


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
            facts["workload"] = found.to_json()
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
