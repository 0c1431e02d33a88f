"""The cases of static/jobs/test_programs.py: what one of two workers gets from a program, trained without servers."""

from __future__ import annotations

from functools import partial
from typing import Any

import fleet
import fleet_programs as static
from fleet_programs.program.variable import Variable
from fleet_programs.transpiler import DistributeTranspiler, DistributeTranspilerConfig
from program_support.programs_models import DEFAULTS, MODELS, Model

STEPS = range(10)
LOCAL = "mlp"
"""Trained by averages of parameters as well; with plain descent they are those of one process."""


def _losses(model: Model, run: Any) -> list[float]:
    return [float(run(model.batch(step, fleet.worker_index()))[0][0]) for step in STEPS]


def by_fleet(name: str, strategy: fleet.DistributedStrategy | None = None) -> list[float]:
    """`fleet.distributed_optimizer(...).minimize(loss)`."""

    def minimize(loss: Variable) -> object:
        return fleet.distributed_optimizer(DEFAULTS[name](), strategy or fleet.DistributedStrategy()).minimize(loss)

    model = MODELS[name](minimize)
    assert static.main_program is model.main
    executor, scope = static.Executor(), static.Scope()
    executor.run(static.startup_program, scope=scope)
    return _losses(model, lambda feed: executor.run(static.main_program, feed, [model.loss], scope))


def by_transpiler(name: str, **settings: Any) -> list[float]:
    """nccl2 mode, with a ParallelExecutor; the workers have met already."""
    config = DistributeTranspilerConfig()
    config.mode = "nccl2"
    for field, value in settings.items():
        setattr(config, field, value)
    model = MODELS[name]()
    endpoints, index = fleet.worker_endpoints(), fleet.worker_index()
    DistributeTranspiler(config).transpile(
        index,
        program=model.main,
        startup_program=model.startup,
        trainers=",".join(endpoints),
        current_endpoint=endpoints[index],
    )
    scope = static.Scope()
    static.Executor().run(model.startup, scope=scope)
    executor = static.ParallelExecutor(
        use_cuda=False,
        loss_name=model.loss,
        main_program=model.main,
        num_trainers=len(endpoints),
        trainer_id=index,
        scope=scope,
    )
    return _losses(model, lambda feed: executor.run([model.loss], feed))


def averaged_by_fleet() -> list[float]:
    strategy = fleet.DistributedStrategy()
    strategy.localsgd = True
    return by_fleet(LOCAL, strategy)


def averaged_now_and_then() -> list[float]:
    """Averages inside a condition, which holds in every step up to `begin_step`."""
    strategy = fleet.DistributedStrategy()
    strategy.localsgd = True
    strategy.localsgd_configs = {"k_steps": 3, "begin_step": len(STEPS)}
    return by_fleet(LOCAL, strategy)


def recomputed() -> list[float]:
    strategy = fleet.DistributedStrategy()
    strategy.recompute = True
    strategy.recompute_configs = {"checkpoints": ["fc_0.tmp_1"]}
    return by_fleet(LOCAL, strategy)


def merging() -> fleet.DistributedStrategy:
    """Two batches make one update."""
    strategy = fleet.DistributedStrategy()
    strategy.gradient_merge = True
    strategy.gradient_merge_configs = {"k_steps": 2}
    return strategy


def merged_by_two() -> list[float]:
    return by_fleet(LOCAL, merging())


def averaged_by_transpiler() -> list[float]:
    return by_transpiler(LOCAL, mode="collective", collective_mode="local_sgd")


CASES: dict[str, str] = {
    "averaged_by_fleet": LOCAL,
    "averaged_by_transpiler": LOCAL,
    "averaged_now_and_then": LOCAL,
    "recomputed": LOCAL,
    "merged_by_two": "merged",
}
"""Each case, and the program that it trains."""
for _way in (by_fleet, by_transpiler):
    for _name in MODELS:
        globals()[f"{_name}_{_way.__name__}"] = partial(_way, _name)
        CASES[f"{_name}_{_way.__name__}"] = _name
