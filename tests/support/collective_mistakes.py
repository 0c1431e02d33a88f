"""Cases of tests/multi/test_strategies.py: what workers are told when they, or their batches, do not fit."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from support.collective_cases import batches, own, pair, start, strategy_of, train, with_norm


def drifted() -> None:
    _, model, _ = pair(strategy_of())
    with torch.no_grad():
        dict(model.named_parameters())["2.bias"][3] += dist.get_rank()
    model.check_in_sync()


def around_the_model() -> None:
    """A batch that does not go through the distributed model leaves gradients that are not averaged."""
    here, model, optimizer = pair(strategy_of())
    for x, y in batches(1):
        cross_entropy(model.module(own(here, x)), own(here, y)).backward()
        optimizer.step()


def joins_refused() -> list[str]:
    """What a worker without data could not answer."""
    found = []
    for fields in (
        {"amp": True},
        {"sync_batch_norm": True},
        {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}},
        {"sharding": True},
        {"adaptive_localsgd": True},
    ):
        _, model, _ = pair(strategy_of(**fields), module=with_norm())
        try:
            with model.join():
                pass
        except Exception as error:
            found.append(str(error))
    return found


def adaptive_without_loss() -> None:
    train(strategy_of(adaptive_localsgd=True), num_steps=3)


def forgot_to_scale() -> None:
    train(strategy_of(amp=True), num_steps=1)


def not_a_number() -> None:
    """The loss of worker 1 is NaN; every worker says so."""
    here, model, optimizer = pair(strategy_of(amp=True))
    for x, y in batches(10):
        loss = cross_entropy(model(own(here, x)), own(here, y))
        if here.worker_index() == 1:
            loss = loss * float("nan")
        model.scale_loss(loss).backward()
        optimizer.step()
        optimizer.zero_grad()


def another_model() -> None:
    here = start()
    here.distributed_model(nn.Linear(3, 4 + here.worker_index()))


def another_layer() -> None:
    here = start()
    here.distributed_model(nn.Sequential(*(nn.Linear(3, 3) for _ in range(1 + here.worker_index()))))


CASES = [
    "drifted",
    "around_the_model",
    "joins_refused",
    "adaptive_without_loss",
    "forgot_to_scale",
    "not_a_number",
    "another_model",
    "another_layer",
]
