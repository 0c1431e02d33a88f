"""Every mode learns the CTR task as well as one process does that trains on the same samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from fleet import _native
from support.jobs import fleetrun
from support.parity import ctr_job as parity_ctr_job
from support.parity.around import worst_error
from support.parity.ctr import (
    DENSE_LR,
    INITIALIZER,
    NUM_WORKERS,
    TABLE_EPS,
    TABLE_LR,
    WIDTH,
    Batch,
    Clicks,
    auc_of,
    held_out,
    loss_of,
    stream,
)
from support.sweeps import sweep

LIMIT_S = 240.0
NUM_SERVERS = 2
NUM_TOGETHER = 30
"""Batches of each worker where every step is compared."""


class PlainRows(nn.Module):
    """A torch embedding of all the keys that will come."""

    def __init__(self, keys: torch.Tensor) -> None:
        super().__init__()
        self.keys = keys
        first = _native.initialize(INITIALIZER.name, dict(INITIALIZER.args), 0, "ids", keys, WIDTH)
        self.embedding = nn.Embedding.from_pretrained(torch.from_numpy(first), freeze=False, sparse=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.embedding(torch.searchsorted(self.keys, ids))
        return rows


def train_locally(data: Sequence[Batch]) -> tuple[list[float], float]:
    """Plain torch in this process; the losses and the AUC."""
    unseen = held_out()
    torch.manual_seed(0)
    model = Clicks(PlainRows(torch.cat([batch.ids.flatten() for batch in [*data, *unseen]]).unique()))
    optimizers = [
        torch.optim.Adagrad(model.rows.parameters(), lr=TABLE_LR, eps=TABLE_EPS),
        torch.optim.Adam(model.layers.parameters(), lr=DENSE_LR),
    ]
    losses = []
    with torch.sparse.check_sparse_tensor_invariants(False):  # said so that torch does not warn
        for batch in data:
            loss = loss_of(model, batch)
            losses.append(loss.item())
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    return losses, auc_of(model, unseen)


@cache
def one_by_one() -> float:
    """The AUC of all workers' batches, one after the other."""
    pairs = zip(*(stream(worker) for worker in range(NUM_WORKERS)), strict=True)
    return train_locally([batch for pair in pairs for batch in pair])[1]


def together() -> tuple[list[float], float]:
    """Losses and AUC of steps with all workers' batches at once."""
    pairs = zip(*(stream(worker)[:NUM_TOGETHER] for worker in range(NUM_WORKERS)), strict=True)
    return train_locally([Batch(*map(torch.cat, zip(*pair, strict=True))) for pair in pairs])


def train_job(mode: str, folder: Path, *options: object) -> tuple[list[float], float]:
    script = Path(parity_ctr_job.__file__)
    result = fleetrun(
        *("--server_num", NUM_SERVERS, "--worker_num", NUM_WORKERS, script, "--mode", mode, "--out", folder, *options),
        cwd=folder,
        environ={"PYTHONPATH": str(script.parents[2])},
        limit_s=LIMIT_S,
        warm=True,
    )
    assert result.code == 0, result.err
    given = [json.loads((folder / f"worker{index}.json").read_text()) for index in range(NUM_WORKERS)]
    losses = zip(*(one["losses"] for one in given), strict=True)
    return [sum(step) / NUM_WORKERS for step in losses], given[0]["auc"]


@pytest.mark.timeout(LIMIT_S + 30)
@pytest.mark.parametrize("mode", sweep(["async", "half_async", "geo"], sample=lambda mode: mode != "half_async"))
def test_workers_that_do_not_wait_for_each_other(mode: str, tmp_path: Path) -> None:
    _, auc = train_job(mode, tmp_path)
    assert one_by_one() > 0.85
    assert abs(auc - one_by_one()) < 0.01


@pytest.mark.timeout(LIMIT_S + 30)
def test_dense_parameters_by_all_reduce(tmp_path: Path) -> None:
    expected, expected_auc = together()
    losses, auc = train_job("hybrid", tmp_path, "--batches", NUM_TOGETHER)
    assert len(losses) == NUM_TOGETHER
    assert worst_error(losses, expected) < 1e-6
    assert abs(auc - expected_auc) < 0.01
