"""Cases of tests/multi/collective/test_strategies.py: what workers are told when they, or their batches, do not fit."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from support.collective.collective_cases import batches, own, pair, start, strategy_of, train, with_norm


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


class _Half(nn.Module):
    """A model with a part that has no part in the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.used(x)
        return found


def unused_in_the_loss() -> None:
    _, model, optimizer = pair(strategy_of(), module=_Half())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()


def a_layer_that_rests() -> list[float]:
    """The gradients of a layer are taken away for a step, as some do while the others warm up."""
    resting = nn.Linear(3, 1)
    here, model, optimizer = pair(strategy_of(), module=nn.Sequential(nn.Linear(3, 3), resting))
    moved = []
    for step in range(2):
        before = [one.detach().clone() for one in resting.parameters()]
        model(torch.ones(2, 3) * (1 + here.worker_index())).sum().backward()
        if step == 0:
            for one in resting.parameters():
                one.grad = None
        optimizer.step()
        optimizer.zero_grad()
        pairs = zip(before, resting.parameters(), strict=True)
        moved.append(sum(float((old - new).abs().sum()) for old, new in pairs))
    model.check_in_sync()
    return moved


def unused_without_our_optimizer() -> None:
    model = start().distributed_model(_Half())
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()


def the_same_model_twice() -> None:
    here, module = start(), nn.Linear(3, 1)
    here.distributed_model(module)
    here.distributed_model(module)


def a_lazy_model() -> None:
    start().distributed_model(nn.Sequential(nn.Linear(3, 4), nn.LazyLinear(2)))


def a_lazy_buffer() -> None:
    start().distributed_model(nn.LazyBatchNorm1d(affine=False))


CASES = [
    "unused_in_the_loss",
    "a_layer_that_rests",
    "unused_without_our_optimizer",
    "the_same_model_twice",
    "a_lazy_model",
    "a_lazy_buffer",
    "drifted",
    "around_the_model",
    "joins_refused",
    "adaptive_without_loss",
    "forgot_to_scale",
    "not_a_number",
    "another_model",
    "another_layer",
]
