"""The engines by their names, and the command line of fleetrun as one of them wants it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from fleet import env
from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet_tools.engines import (
    compose,
    jobset,
    kubeflow,
    kubernetes,
    ray_driver,
    skypilot,
    slurm,
    torchx_command,
    volcano,
)
from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.refused import refuse

ENGINES: dict[str, Callable[[EngineJob], str]] = {
    "slurm": slurm.render,
    "slurm-het": slurm.render_heterogeneous,
    "k8s": kubernetes.render,
    "jobset": jobset.render,
    "kubeflow": kubeflow.render,
    "volcano": volcano.render,
    "compose": compose.render,
    "skypilot": skypilot.render,
    "ray": ray_driver.render,
    "torchx": torchx_command.render,
}


def render(options: Options, words: Sequence[str] = ()) -> str:
    """What the engine of `--render` is given for this job; UsageError for what it cannot carry over."""
    if options.render not in ENGINES:
        raise UsageError(f"--render {options.render}: no such engine; write one of {', '.join(ENGINES)}")
    headline = shlex.join(["fleetrun", *words]) if words else ""
    job = EngineJob(options, headline, _memory())
    refuse(job, options.render)
    return ENGINES[options.render](job)


def _memory() -> int | None:
    """What a server needs of its machine to have FLEET_MEMORY_BUDGET, which is 80% of a container when unset."""
    budget = env.FLEET_MEMORY_BUDGET.get()
    return None if budget is None else budget * 5 // 4
