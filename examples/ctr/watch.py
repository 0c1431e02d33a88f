"""What both scripts show: a bar while they train, and the AUC on data that they never train on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import torch
from data import Batch, batches
from torch import nn

import fleet
from fleet.metrics import AUC

WINDOW = 50
"""The bar's AUC is that of so many batches, each scored before it was trained on."""


class Watch:
    """Iterates over batches with a bar beside it; `rate_name` says what this process's samples a second are there."""

    def __init__(self, total: int, auc_before: float, enabled: bool = True, rate_name: str = "samples/s") -> None:
        self.auc_before = auc_before
        self.samples = 0
        self._total, self._enabled, self._rate_name = total, enabled, rate_name
        self._started = time.perf_counter()
        self._recent = AUC()
        self._done = 0

    @property
    def seconds(self) -> float:
        """Since the first batch was asked for."""
        return time.perf_counter() - self._started

    def over(self, data: Iterable[Batch]) -> Iterator[Batch]:
        """The batches."""
        self._started = time.perf_counter()
        self._bar = fleet.progress(data, "training", total=self._total, enabled=self._enabled)
        yield from self._bar

    def note(self, loss: torch.Tensor, logits: torch.Tensor, label: torch.Tensor) -> None:
        """A batch was trained on."""
        self.samples += len(label)
        self._done += 1
        self._recent.update(logits.sigmoid(), label)
        if self._done % 10 == 0:
            rate = f"{self.samples / self.seconds:,.0f}"
            self._bar.show(loss=loss.item(), AUC=self._recent.compute(), **{self._rate_name: rate})
        if self._done % WINDOW == 0:
            self._recent.reset()


@torch.no_grad()
def held_out_auc(model: nn.Module, count: int = 16) -> float:
    """AUC on batches of a stream that no worker reads."""
    auc = AUC()
    model.eval()
    for ids, dense, label in batches(count, worker=10**6, signal=3):
        auc.update(model(ids, dense).sigmoid(), label)
    model.train()
    return auc.compute()
