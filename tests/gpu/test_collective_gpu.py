"""Collective training on a GPU: two workers that share it over Gloo equal one process; one worker uses NCCL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from support.collective_job import LIMIT_S, run_cases

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
        "support.collective_parity", CASES, num_workers, tmp_path, where=("--gpus", "0")
    )
    for case, workers in seen.items():
        for worker in workers:
            assert "error" not in worker, (case, worker)
            assert all(difference < LIMIT for difference in worker.values()), (case, worker)
