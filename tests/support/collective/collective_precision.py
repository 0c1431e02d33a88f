"""Cases of tests/multi/collective/test_strategies.py: half precision, on the way and in the model."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy

from support.collective.collective_cases import alone, batches, gap, own, pair, strategy_of, train, worst


def local_sgd_half() -> dict[str, Any]:
    """Differences travel in half precision: workers stay equal after each average, and near the full precision."""
    fields = {"localsgd": True, "localsgd_configs": {"k_steps": 2}, "fp16_allreduce": True}
    got = train(strategy_of(**fields), "momentum", num_steps=20)
    return {"far": worst(got, train(strategy_of(**fields | {"fp16_allreduce": False}), "momentum", num_steps=20))}


def half_all_reduce() -> dict[str, float]:
    found = {}
    for dtype in ("float16", "bfloat16"):
        got = train(strategy_of(fp16_allreduce=True, allreduce_dtype=dtype), num_steps=20)
        found[dtype] = worst(got, alone(num_steps=20))
    return found


def half_precision() -> dict[str, Any]:
    """bfloat16 needs nothing else; float16 scales the loss, which does not change the outcome."""
    bf16 = train(strategy_of(amp=True, amp_configs={"dtype": "bfloat16"}), num_steps=30)
    fp16 = train(strategy_of(amp=True, amp_configs={"init_loss_scaling": 1024.0}), num_steps=30, asks=True)
    pure = train(strategy_of(amp=True, amp_configs={"dtype": "bfloat16", "use_pure_bf16": True}), num_steps=30)
    lists = {"dtype": "bfloat16", "custom_black_list": ["linear"]}
    single = train(strategy_of(amp=True, amp_configs=lists), num_steps=5)
    names = {"dtype": "bfloat16", "custom_black_varnames": ["weight"]}
    named = train(strategy_of(amp=True, amp_configs=names), num_steps=5)
    exact = alone(num_steps=30)
    return {
        "bf16": worst(bf16, exact),
        "fp16": worst(fp16, exact),
        "pure": worst(pure, exact),
        "single": worst(single, exact[:5]),
        "named": worst(named, exact[:5]),
    }


def overflow() -> dict[str, Any]:
    """Steps that overflow are left out, on every worker, and the scale shrinks until they do not."""
    configs = {"init_loss_scaling": 1e30, "decr_every_n_nan_or_inf": 1, "decr_ratio": 1e-9, "incr_every_n_steps": 2}
    here, model, optimizer = pair(strategy_of(amp=True, amp_configs=configs))
    weight = dict(model.named_parameters())["0.weight"]
    before = weight.detach().clone()
    factors, moved = [], []
    for x, y in batches(4):
        loss = cross_entropy(model(own(here, x)), own(here, y))
        model.scale_loss(loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        assert model.step_state.scale is not None
        factors.append(model.step_state.scale.factor)
        moved.append(not torch.equal(before, weight))
    return {"factors": factors, "moved": moved, "gap": gap(model)}


CASES = [
    "local_sgd_half",
    "half_all_reduce",
    "half_precision",
    "overflow",
]
