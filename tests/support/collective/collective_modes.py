"""Cases of tests/multi/collective/test_strategies.py: how workers of each mode come together."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fleet.collective.modes.local_sgd import LocalSGDPolicy
from fleet.optim import Lamb, Lars
from support.collective.collective_cases import alone, gap, network, pair, start, steps, strategy_of, train, worst


def local_sgd() -> dict[str, Any]:
    fields = {"localsgd": True, "localsgd_configs": {"k_steps": 3, "begin_step": 2}}
    here, model, optimizer = pair(strategy_of(**fields))
    gaps = steps(here, model, optimizer, 9, gaps=True)
    model.settle()
    return {"equal": [step for step, gap in enumerate(gaps, 1) if gap == 0.0], "settled": gap(model)}


def adaptive() -> dict[str, Any]:
    fields = {"adaptive_localsgd": True, "adaptive_localsgd_configs": {"init_k_steps": 4, "begin_step": 1}}
    here, model, optimizer = pair(strategy_of(**fields))
    mode = model.step_state.policy
    assert isinstance(mode, LocalSGDPolicy)
    intervals = []
    for _ in range(6):
        steps(here, model, optimizer, 1)
        intervals.append(mode.k_steps)
    for group in optimizer.param_groups:
        group["lr"] = 0.001
    steps(here, model, optimizer, 4)
    return {"intervals": intervals, "after a lower rate": mode.k_steps}


def post_local() -> dict[str, Any]:
    """Averaged gradients for four steps, then local ones; the outer optimizer at rate 1 without momentum averages."""
    plain = {"k_steps": 2, "begin_step": 4, "outer_lr": 1.0, "outer_momentum": 0.0, "nesterov": False}
    here, model, optimizer = pair(strategy_of(post_local=True, post_local_configs=plain), "adam")
    gaps = steps(here, model, optimizer, 8, gaps=True)
    first = train(strategy_of(post_local=True, post_local_configs=plain), "adam", num_steps=4)
    diloco = strategy_of(post_local=True, post_local_configs={"k_steps": 4})
    losses = train(diloco, "adam", num_steps=40)
    return {
        "equal": [step for step, gap in enumerate(gaps, 1) if gap == 0.0],
        "first": worst(first, alone("adam", num_steps=4)),
        "diloco": losses[-1] / losses[0],
    }


def large_batch() -> dict[str, float]:
    """LARS and LAMB of the mean gradient are those of one process."""
    lars = strategy_of(lars=True, lars_configs={"lars_coeff": 0.01, "exclude_from_weight_decay": ["bias"]})
    lamb = strategy_of(lamb=True, lamb_configs={"exclude_from_weight_decay": ["bias"]})

    def plain_lars(module: nn.Module) -> torch.optim.Optimizer:
        names = {one: name for name, one in module.named_parameters()}
        sgd = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
        return Lars.taking_over(sgd, coeff=0.01, exclude=["bias"], names=names)

    def plain_lamb(module: nn.Module) -> torch.optim.Optimizer:
        names = {one: name for name, one in module.named_parameters()}
        return Lamb.taking_over(torch.optim.Adam(module.parameters(), lr=0.01), exclude=["bias"], names=names)

    here = start(lars)
    module = network()
    model = here.distributed_model(module)
    optimizer = here.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9))
    got = steps(here, model, optimizer, 20)
    return {
        "lars": worst(got, alone(num_steps=20, make=plain_lars)),
        "lamb": worst(train(lamb, "adam", num_steps=20), alone(num_steps=20, make=plain_lamb)),
    }


def compressed() -> dict[str, Any]:
    """DGC with a momentum optimizer: workers stay equal, and the loss falls."""
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(20, 1024), nn.ReLU(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 4))
    fields = {"dgc": True, "dgc_configs": {"rampup_begin_step": 5, "rampup_step": 10, "sparsity": [0.75, 0.9, 0.99]}}
    here, model, optimizer = pair(strategy_of(**fields), "momentum", wide)
    losses = steps(here, model, optimizer, 60)
    return {"fell": losses[-1] / losses[0], "gap": gap(model)}


def hybrid_sharding() -> dict[str, float]:
    """Two copies of the model, each divided among half of the workers."""
    found = {}
    for stage in (1, 2, 3):
        configs = {"stage": stage, "hybrid_dp": True, "sharding_degree": 2, "segment_broadcast_MB": 0.001}
        got = train(strategy_of(sharding=True, sharding_configs=configs), "adam", num_steps=10)
        found[str(stage)] = worst(got, alone("adam", num_steps=10))
    return found


CASES = [
    "local_sgd",
    "adaptive",
    "post_local",
    "large_batch",
    "compressed",
]
