"""Clipping beside servers is that of one process: `strategy.clip_norm`, and torch's own call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from fleet.net import Endpoint
from support.clipped import (
    Make,
    Tower,
    assert_alike,
    batch_of,
    one_optimizer,
    served_rows,
    train_plain,
    train_served,
    two_optimizers,
    values_of,
)
from support.training import in_threads, served, strategy, trainer

pytestmark = pytest.mark.timeout(120)

MAX_NORM = 0.7
STEPS = 6
STEPS_OF = {
    workers: [[batch_of(step, one) for one in range(workers)] for step in range(STEPS)] for workers in (1, 2, 3)
}


def by_optimizer(_: Tower, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """As `strategy.clip_norm` does: what each step applies."""
    for optimizer in optimizers:
        clip_grad_norm_([one for group in optimizer.param_groups for one in group["params"]], MAX_NORM)


def by_torch(model: Tower, _: Sequence[torch.optim.Optimizer]) -> None:
    clip_grad_norm_(model.parameters(), MAX_NORM)


def nothing(*_: object) -> None:
    """No clipping."""


def work(
    endpoints: Sequence[Endpoint], make: Make, worker: int, num_workers: int, clip: Any, **fields: Any
) -> dict[str, torch.Tensor]:
    """One worker of a job; what it has in the end."""
    mode = fields.pop("mode", "sync")
    made: list[torch.optim.Optimizer] = []
    model = Tower(served_rows)
    given = make(model)
    one = trainer(
        endpoints,
        worker,
        num_workers,
        strategy=strategy(mode, k_steps=1, **fields),
        model=model,
        optimizer=lambda _: given[0],
    )
    made = [one.optimizer, *(one.fleet.distributed_optimizer(other) for other in given[1:])]
    with ExitStack() as stack:
        stack.callback(one.fleet.shutdown)
        one.fleet.init_worker()
        train_served(one, made, [batches[worker] for batches in STEPS_OF[num_workers]], clip)
        one.worker.policy.flush()
        if mode != "sync":
            one.worker.policy.refresh()
        found = values_of(model)
        one.fleet.stop_worker()
    return found


@pytest.mark.parametrize("make", [one_optimizer, two_optimizers])
@pytest.mark.parametrize(("num_workers", "num_servers"), [(1, 2), (2, 1), (2, 2), (3, 2)])
def test_the_norm_of_the_mean_is_limited_as_in_one_process(make: Make, num_workers: int, num_servers: int) -> None:
    wanted = values_of(train_plain(make, STEPS_OF[num_workers], by_optimizer))
    with served(num_servers) as (endpoints, services):
        found = in_threads(
            *(
                partial(work, endpoints, make, one, num_workers, nothing, clip_norm=MAX_NORM)
                for one in range(num_workers)
            )
        )
    for one in found:
        assert_alike(one, wanted)
