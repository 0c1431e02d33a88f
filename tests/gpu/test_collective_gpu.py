"""Collective training on a GPU: two workers that share it over Gloo equal one process; one worker uses NCCL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fleet import Fleet
from fleet.collective.model import DistributedModel
from fleet.errors import DivergedError
from support.collective.collective_cases import strategy_of
from support.collective.collective_job import LIMIT_S, run_cases

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
    pytest.mark.timeout(LIMIT_S + 20),
]

CASES = ["reduce_grad", "gradient_merge", "sharding_1", "recompute", "local_every_step"]
LIMIT = 1e-3
"""A GPU adds up in another order, and TF32 may be on."""


@pytest.mark.parametrize("num_workers", [1, 2])
def test_losses_are_those_of_one_process(num_workers: int, tmp_path: Path) -> None:
    seen: dict[str, list[Any]] = run_cases(
        "support.collective.collective_parity", CASES, num_workers, tmp_path, where=("--gpus", "0")
    )
    for case, workers in seen.items():
        for worker in workers:
            assert "error" not in worker, (case, worker)
            assert all(difference < LIMIT for difference in worker.values()), (case, worker)


def pair_on_gpu(action: str) -> tuple[Fleet, DistributedModel, Any]:
    here = Fleet()
    here.init(is_collective=True, strategy=strategy_of(nonfinite_gradients=action))
    model = here.distributed_model(nn.Linear(3, 1))
    assert isinstance(model, DistributedModel)
    return here, model, here.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))


def step(here: Fleet, model: DistributedModel, optimizer: Any, factor: float) -> None:
    (model(torch.ones(2, 3, device=here.device)).sum() * factor).backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture(scope="module", autouse=True)
def opened_for_good() -> None:
    """With the first group of a process torch opens a port that stays: Gloo's, which `nothing_leaks` would blame."""
    here, model, optimizer = pair_on_gpu("error")
    try:
        step(here, model, optimizer, 1.0)
    finally:
        here.shutdown()


@pytest.mark.parametrize("notices", ["step", "state_dict"])
def test_a_bad_gradient_is_an_error_one_step_later_and_before_anything_is_saved(notices: str) -> None:
    here, model, optimizer = pair_on_gpu("error")
    try:
        step(here, model, optimizer, 1.0)
        step(here, model, optimizer, float("nan"))
        with pytest.raises(DivergedError, match="step 2 on worker 0: .* the parameters have taken it"):
            step(here, model, optimizer, 1.0) if notices == "step" else model.state_dict()
    finally:
        here.shutdown()


def test_a_bad_gradient_is_skipped() -> None:
    here, model, optimizer = pair_on_gpu("skip")
    try:
        for factor in (1.0, float("inf"), 1.0):
            step(here, model, optimizer, factor)
        assert optimizer.num_skipped == 1
        assert all(bool(one.isfinite().all()) for one in model.state_dict().values())
    finally:
        here.shutdown()
