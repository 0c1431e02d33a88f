"""The CTR task at a small size: a model of any embedding, and how well it tells clicks from the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import fleet
from fleet.metrics import AUC

sys.path.insert(0, str(Path(__file__).parents[3]))
from examples.ctr.data import DENSE, SLOTS, batches
from examples.ctr.data import Batch as Batch

WIDTH, HIDDEN, BATCH, SIGNAL = 8, 32, 500, 3.0
NUM_WORKERS, NUM_BATCHES, NUM_HELD_OUT = 2, 100, 20
"""Batches per worker."""
DENSE_LR, TABLE_LR = 5e-4, 0.2
TABLE_EPS = 1e-6
"""Large enough that a gradient of nothing but rounding, in a row's first step, is no step of +lr or -lr."""
INITIALIZER = fleet.initializers.Uniform(-0.01, 0.01)


class Clicks(nn.Module):
    """26 rows and 13 numbers through one hidden layer."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__()
        self.rows = rows
        self.layers = nn.Sequential(nn.Linear(SLOTS * WIDTH + DENSE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))

    def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(torch.cat([self.rows(ids).flatten(1), dense], dim=1))
        return logits


@cache
def stream(worker: int) -> list[Batch]:
    """What one worker trains on."""
    return list(batches(NUM_BATCHES, BATCH, worker=worker, signal=SIGNAL))


@cache
def held_out() -> list[Batch]:
    """What nobody trains on."""
    return list(batches(NUM_HELD_OUT, BATCH, worker=7, signal=SIGNAL))


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch.ids, batch.dense), batch.label)


@torch.no_grad()
def auc_of(model: nn.Module, data: Iterable[Batch]) -> float:
    metric = AUC()
    model.eval()
    for batch in data:
        metric.update(model(batch.ids, batch.dense).softmax(dim=1)[:, 1], batch.label)
    model.train()
    return metric.compute()
