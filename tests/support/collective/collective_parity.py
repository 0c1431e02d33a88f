"""The cases of tests/parity/test_collective.py: how far each way of training is from one process."""

from __future__ import annotations

from typing import Any

import fleet
from support.collective.collective_cases import alone, strategy_of, train, worst

_MERGE = {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}}
_SMALL = 0.001
"""MB: a segment of its own for every layer."""


def _sharding(stage: int) -> dict[str, object]:
    return {"sharding": True, "sharding_configs": {"stage": stage, "segment_broadcast_MB": _SMALL}}


def _both(fields: dict[str, object], merged: int = 1, **options: Any) -> dict[str, float]:
    found = {}
    num_steps = merged * (20 if fleet.worker_num() > 2 else 50)  # more workers are slower, and show no more
    for optimizer in ("sgd", "adam"):
        got = train(strategy_of(**fields), optimizer, num_steps=num_steps, **options)
        found[optimizer] = worst(got, alone(optimizer, num_steps=num_steps, merged=merged))
    return found


def reduce_grad() -> dict[str, float]:
    return _both({})


def reduce_grad_asked() -> dict[str, float]:
    return _both({}, asks=True, model_first=False)


def gradient_merge() -> dict[str, float]:
    return _both(_MERGE, merged=2, asks=True)


def sharding_1() -> dict[str, float]:
    return _both(_sharding(1))


def sharding_2() -> dict[str, float]:
    return _both(_sharding(2), model_first=False)


def sharding_3() -> dict[str, float]:
    return _both(_sharding(3))


def sharding_3_merged() -> dict[str, float]:
    return _both(_sharding(3) | _MERGE, merged=2)


def recompute() -> dict[str, float]:
    return _both({"recompute": True, "recompute_configs": {"checkpoints": ["0", "2"]}})


def local_every_step() -> dict[str, float]:
    """LocalSGD with k = 1 against ReduceGrad."""
    fields = {"localsgd": True, "localsgd_configs": {"k_steps": 1}}
    return {name: worst(train(strategy_of(**fields), name), train(strategy_of(), name)) for name in ("sgd", "momentum")}


CASES = ["reduce_grad", "gradient_merge", "sharding_1", "sharding_2", "sharding_3", "local_every_step"]
MORE = ["recompute", "reduce_grad_asked", "sharding_3_merged"]
"""What two workers show as well as four."""
