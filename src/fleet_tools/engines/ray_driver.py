"""Ray: a driver with the script as the training function of `fleet.ray.Trainer`."""

from __future__ import annotations

from fleet_tools.engines.asked import EngineJob
from fleet_tools.engines.yaml_text import comment

_DRIVER = '''{head}import runpy
import sys

import ray.train

import fleet

WORDS = {words!r}


def train() -> None:
    """What each worker does: the script, as `python` would run it."""
    sys.argv[:] = WORDS
    runpy.{run}, run_name="__main__")


run = ray.train.RunConfig(
    name={name!r},
    storage_path="/shared/runs",  # choose: what all nodes see
    failure_config=ray.train.FailureConfig(max_failures={lives}),
)
trainer = fleet.ray.Trainer(
    train,
{arguments}    run_config=run,
)
print(trainer.fit().metrics)
'''
_HINT = """{}
Needs pip install 'torch-fleet[ray]' on all nodes. Save as job.py, then:
ray job submit --working-dir . -- python job.py"""


def render(job: EngineJob) -> str:
    """A program for `ray job submit`."""
    options = job.options
    script, arguments = job.script[1:], {}
    if job.has_servers:
        arguments["servers"] = f"{job.num_servers},"
        arguments["workers"] = f"{job.num_workers},"
        arguments["resources_per_server"] = f"{_resources(job.server_gpus, job.memory)},  # choose"
    else:
        arguments["workers"] = f"{job.num_nodes * job.num_processes},"
    arguments["resources_per_worker"] = f"{_resources(1 if job.worker_gpus else 0)},  # choose"
    if job.is_durable:
        arguments["journal"] = f"{options.durable!r},  # choose: what all nodes see"
    is_module = script[0] == "-m"
    words = list(script[1:] if is_module else script)
    return _DRIVER.format(
        head=comment(_HINT.format(job.headline)),
        words=words,
        run="run_module(WORDS[0], alter_sys=True" if is_module else "run_path(WORDS[0]",
        name=job.name,
        lives=job.lives,
        arguments="".join(f"    {name}={value}\n" for name, value in arguments.items()),
    )


def _resources(gpus: int, memory: int | None = None) -> dict[str, int]:
    return {"CPU": 4, **({"GPU": gpus} if gpus else {}), **({"memory": memory} if memory else {})}
