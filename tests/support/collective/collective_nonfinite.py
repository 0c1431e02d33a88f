"""Cases of multi/collective/test_nonfinite.py: the gradients of worker 1 are no numbers in the third of six batches."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

from support.collective.collective_cases import batches, network, own, pair, strategy_of

NUM_STEPS, BAD_STEP = 6, 3

DGC = {"dgc": True, "dgc_configs": {"sparsity": [0.9]}}
LOCAL = {"localsgd": True, "localsgd_configs": {"k_steps": 100, "begin_step": 0}}
POST_LOCAL = {"post_local": True, "post_local_configs": {"k_steps": 100}}
MERGED = {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}}
BFLOAT16 = {"amp": True, "amp_configs": {"dtype": "bfloat16"}}


def _sharding(stage: int) -> dict[str, Any]:
    return {"sharding": True, "sharding_configs": {"stage": stage}}


def _wide() -> nn.Module:
    """One weight is large enough for DGC."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 900), nn.ReLU(), nn.Linear(900, 4))


def _train(action: str, fields: dict[str, Any], bad: float = math.nan) -> dict[str, Any]:
    strategy = strategy_of(nonfinite_gradients=action, **fields)
    optimizer = "momentum" if strategy.dgc else "sgd"
    here, model, made = pair(strategy, optimizer, _wide() if strategy.dgc else network())
    for number, (x, y) in enumerate(batches(NUM_STEPS), 1):
        mine = own(here, x)
        if number == BAD_STEP and here.worker_index() == 1:
            mine = mine * bad
        model.scale_loss(cross_entropy(model(mine), own(here, y))).backward()
        made.step()
        made.zero_grad()
    if action == "skip":  # a worker that steps alone raises alone
        model.settle()
        model.check_in_sync()
    values = [one for tensor in model.state_dict().values() for one in tensor.flatten().tolist()]
    return {
        "is_finite": all(map(math.isfinite, values)),
        "num_skipped": made.num_skipped,
        "num_updates": model.step_state.num_updates,
        "last": values[-4:],
    }


def averaged_error() -> None:
    _train("error", {})


def infinite_error() -> None:
    _train("error", {}, bad=math.inf)


def bfloat16_error() -> None:
    _train("error", BFLOAT16)


def merged_error() -> None:
    _train("error", MERGED)


def dgc_error() -> None:
    _train("error", DGC)


def sharding_1_error() -> None:
    _train("error", _sharding(1))


def sharding_2_error() -> None:
    _train("error", _sharding(2))


def sharding_3_error() -> None:
    _train("error", _sharding(3))


def local_error() -> dict[str, Any]:
    return _train("error", LOCAL)


def averaged_skip() -> dict[str, Any]:
    return _train("skip", {})


def merged_skip() -> dict[str, Any]:
    return _train("skip", MERGED)


def dgc_skip() -> dict[str, Any]:
    return _train("skip", DGC)


def sharding_1_skip() -> dict[str, Any]:
    return _train("skip", _sharding(1))


def sharding_3_skip() -> dict[str, Any]:
    return _train("skip", _sharding(3))


def local_skip() -> dict[str, Any]:
    return _train("skip", LOCAL)


def post_local_skip() -> dict[str, Any]:
    return _train("skip", POST_LOCAL)


def float16_overflow() -> dict[str, Any]:
    """The loss scale mends it: steps are left out until the scale is small enough, and nothing is an error."""
    here, model, made = pair(strategy_of(amp=True, amp_configs={"init_loss_scaling": 1e30, "decr_ratio": 1e-10}))
    for x, y in batches(8):
        model.scale_loss(cross_entropy(model(own(here, x)), own(here, y))).backward()
        made.step()
        made.zero_grad()
    return {"num_updates": model.step_state.num_updates, "num_skipped": made.num_skipped}


def one_part_error() -> str:
    """A gradient of stage 3 is bad in the part of worker 1 alone; the others hear of it in the same step."""
    here, model, made = pair(strategy_of(**_sharding(3)))
    [(x, y)] = batches(1)
    cross_entropy(model(own(here, x)), own(here, y)).backward()
    if here.worker_index() == 1:
        gradient = next(iter(model.module.parameters())).grad
        assert isinstance(gradient, DTensor)
        gradient.to_local().fill_(math.nan)
    made.step()
    return "no error"


ERRORS = [name for name in list(globals()) if name.endswith("_error")]
SKIPS = [name for name in list(globals()) if name.endswith("_skip")]
CASES = [*ERRORS, *SKIPS, "float16_overflow"]
