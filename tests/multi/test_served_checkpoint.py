"""fleet.Checkpoint beside servers, workers in threads: one moment of the whole job, in every mode, or nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import CheckpointError, FleetError, UsageError
from fleet.net import Endpoint
from fleet.ps import saves, storage
from fleet.ps.service import Service
from fleet.runtime.training.checkpoint import Checkpoint
from support.training import (
    Trainer,
    dense_of,
    exported,
    in_threads,
    joined,
    rows_of,
    served,
    strategy,
)

pytestmark = pytest.mark.timeout(120)

MODES = ["sync", "async", "half", "geo"]


def checkpoint_of(one: Trainer, folder: Path, **more: Any) -> Checkpoint:
    return Checkpoint(folder, model=one.model, optimizer=one.optimizer, **{"timeout_s": 20.0, **more})


def workers(endpoints: Sequence[Endpoint], num: int, work: Callable[[Trainer], Any], **given: Any) -> list[Any]:
    """What `work` comes to in each of so many workers."""

    def run(index: int) -> Any:
        with joined(endpoints, index, num, **given) as one:
            result = work(one)
            one.fleet.stop_worker()
            return result

    return in_threads(*(lambda index=index: run(index) for index in range(num)))  # type: ignore[misc]


def state_of(services: Sequence[Service]) -> Any:
    """Rows and dense parameters with their state, whatever the number of servers."""
    dense = []
    for service in services:
        assert service._holdings is not None
        dense += [array.tobytes() for pair in service._holdings.snapshot() for array in pair]
    return rows_of(services), sorted(dense)


def test_a_sync_job_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def whole(one: Trainer) -> Any:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(one.optimizer, 0.5)
        checkpoint = checkpoint_of(one, tmp_path, scheduler=scheduler, extras={"scheduler too": scheduler})
        assert checkpoint.load() == 0
        for step in range(8):
            one.train(step, step + 1)
            scheduler.step()
            if step in (2, 4):
                checkpoint.save(step + 1)
        return dense_of(one.model)

    def rest(one: Trainer) -> Any:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(one.optimizer, 0.5)
        checkpoint = checkpoint_of(one, tmp_path, scheduler=scheduler, extras={"scheduler too": scheduler}, resume=True)
        assert checkpoint.step == 5
        for step in range(checkpoint.step, 8):
            one.train(step, step + 1)
            scheduler.step()
        return dense_of(one.model)

    with served(2) as (endpoints, services):
        expected = workers(endpoints, 2, whole)
        state = state_of(services)
    with served(2) as (endpoints, services):
        assert workers(endpoints, 2, rest) == expected
        assert state_of(services) == state


@pytest.mark.parametrize("mode", MODES)
def test_everybodys_gradients_are_in_it(mode: str, tmp_path: Path) -> None:
    """Workers that never wait for each other, and servers that write while training goes on."""

    def train(one: Trainer) -> None:
        with checkpoint_of(one, tmp_path) as checkpoint:
            one.train(3)
            checkpoint.save(3)
            one.train(3, 6)

    def check(one: Trainer) -> None:
        assert checkpoint_of(one, tmp_path).load() == 3

    with served(2) as (endpoints, services):
        workers(endpoints, 2, train, strategy=strategy(mode))
    with served(2) as (endpoints, services):
        found = workers(endpoints, 1, lambda one: one.worker.num_steps, strategy=strategy(mode))
        del found
    with served(1) as (endpoints, services):
        workers(endpoints, 2, check, strategy=strategy(mode))
        seen = int(exported(services[0])["seen"].sum())
        if mode != "geo":
            assert seen == sum(_num_keys(step, worker) for step in range(3) for worker in range(2))


def _num_keys(step: int, worker: int) -> int:
    from support.training import batch

    return len(batch(step, worker)[0].unique())
