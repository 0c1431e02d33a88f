"""What a model is asked for, and how its answers are measured: a click, several things at once, or the next item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from sources import Source
from torch import nn

import fleet
from fleet.data import Batch
from fleet.metrics import AUC, NDCG, HitRate, LogLoss, Metric
from fleet.models import Recommender

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Task:
    """`metrics` of what `step(model, batch)` gives; the first of them says which model is the best."""

    metrics: Mapping[str, Any]
    step: Callable[[nn.Module, Batch], Pair]
    seen: Callable[[torch.Tensor, Batch], Pair] | None = None
    """Scores and labels of a batch that was trained on, for the AUC beside the bar."""

    @property
    def first(self) -> str:
        """The name of the metric that counts."""
        return next(iter(self.metrics))


def click(net: Recommender, _source: Source) -> Task:
    """Whether there is a click."""

    def seen(outputs: torch.Tensor, batch: Batch) -> Pair:
        return net.scores(outputs).detach().float(), batch.label

    return Task({"AUC": AUC(), "log loss": LogLoss()}, _stepped(seen), seen)


def several(net: Recommender, _source: Source) -> Task:
    """A click, and a purchase behind it."""

    def seen(outputs: torch.Tensor, batch: Batch) -> Pair:
        return net.scores(outputs).detach().float(), batch.label

    def clicks(outputs: torch.Tensor, batch: Batch) -> Pair:
        scores, label = seen(outputs, batch)
        return scores[:, 0], label[:, 0]

    return Task({"AUC": Column(0, AUC()), "AUC of purchases": Column(1, AUC())}, _stepped(seen), clicks)


def next_item(net: Any, source: Source) -> Task:
    """What comes next, out of all items."""
    items = source.items
    assert items is not None
    # All items as a batch, for a model that makes a vector of each.
    ids = torch.zeros(len(items), source.num_slots, dtype=torch.int64)
    ids[:, source.item] = items
    of_all = Batch(
        torch.zeros(len(items)), torch.zeros(len(items), source.num_dense), ids, {"history": ids[:, :1] * 0}, None
    )

    def step(model: nn.Module, batch: Batch) -> Pair:
        batch = batch.to(fleet.device)
        if hasattr(net, "vectors"):
            scores = net.vectors(batch)[0] @ net.vectors(of_all.to(fleet.device))[1].T
        else:
            scores = net.newest(model(batch), batch)
        return scores, torch.searchsorted(items, batch.ids[:, source.item]).to(scores.device)

    return Task({"HR@10": HitRate(10), "NDCG@10": NDCG(10)}, step)


class Column:
    """A metric of one column of scores and labels."""

    def __init__(self, column: int, metric: Metric) -> None:
        self._column, self._metric = column, metric
        self.state, self.merge, self.compute, self.reset = metric.state, metric.merge, metric.compute, metric.reset

    def update(self, scores: torch.Tensor, labels: torch.Tensor) -> None:
        self._metric.update(scores[:, self._column], labels[:, self._column])


def _stepped(seen: Callable[[torch.Tensor, Batch], Pair]) -> Callable[[nn.Module, Batch], Pair]:
    def step(model: nn.Module, batch: Batch) -> Pair:
        batch = batch.to(fleet.device)
        return seen(model(batch), batch)

    return step


TASKS: dict[str, Callable[[Any, Source], Task]] = {
    "click": click,
    "history": click,
    "several": several,
    "next": next_item,
}
