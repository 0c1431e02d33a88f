"""Cases of tests/multi/ps/test_evaluate.py: evaluations that workers of a collective job do together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.functional import mse_loss

import fleet
from fleet.metrics import AUC, MAE, GroupedAUC, LogLoss, gather
from support.collective.collective_cases import start

SIZES = ((5, 3, 1), ())
"""Of the batches of each worker; the second has none."""


def batches(worker: int, sizes: tuple[int, ...]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(worker)
    for size in sizes:
        x = torch.randn(size, 3, generator=generator)
        yield x, (x.sum(1) > 0).float()


def model_of(here: fleet.Fleet) -> Any:
    torch.manual_seed(1)
    return here.distributed_model(nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1), nn.Sigmoid(), nn.Flatten(0)))


METRICS: dict[str, Any] = {"auc": AUC(), "loss": mse_loss}


def uneven() -> dict[str, Any]:
    """One worker has no batch at all."""
    here = start()
    model = model_of(here)
    worker = here.worker_index()
    return here.evaluate(model, batches(worker, SIZES[worker]), METRICS)


def joined() -> dict[str, Any]:
    """The data is divided by fleet, and does not come out even."""
    here = start()
    model = model_of(here)
    x, y = next(batches(7, (9,)))
    return here.evaluate(model, fleet.data.shard((x, y), batch_size=4, uneven="join"), METRICS)


def in_the_model() -> dict[str, Any]:
    """One worker's batches are of another width; with "pad" workers ask each other before every batch."""
    here = start()
    model = model_of(here)
    own = [(x[:, : 3 - here.worker_index()], y) for x, y in batches(7, (4, 4, 4))]
    return here.evaluate(model, fleet.data.shard(lambda: own, uneven="pad"), METRICS)


def in_the_loader() -> dict[str, Any]:
    """One worker cannot read its data."""
    here = start()
    model = model_of(here)

    def breaks() -> Iterator[Any]:
        yield from batches(0, (2,))
        if here.worker_index() == 1:
            raise OSError("the disk is gone\nand more")

    return here.evaluate(model, breaks(), METRICS)


def in_a_stream() -> dict[str, Any]:
    """The same, where workers tell each other before each batch whether they have one; then they measure once more."""
    here = start()
    model = model_of(here)

    def breaks() -> Iterator[Any]:
        yield from batches(0, (2, 2))
        if here.worker_index() == 1:
            raise OSError("the disk is gone")
        yield from batches(0, (2, 2))

    try:
        here.evaluate(model, fleet.data.shard(breaks, uneven="drop"), METRICS)
    except Exception as error:
        return {"says": str(error), **here.evaluate(model, batches(0, (3,)), METRICS)}
    return {}


def statistics() -> dict[str, Any]:
    """Workers whose batch norm has seen different batches measure one model: the one that would be saved."""
    here = start()
    model = model_of(here)
    for x, _ in batches(10 + here.worker_index(), (6, 6)):
        model(3 * x + here.worker_index()).sum().backward()
    norm = model.module[1]
    before = [norm.running_mean.item(), norm.running_var.item()]
    data = [*batches(7, (5, 4))]
    found = here.evaluate(model, data[here.worker_index() :: 2], METRICS)
    assert [norm.running_mean.item(), norm.running_var.item()] == before
    model.eval()
    with torch.no_grad():
        own = sum(float(mse_loss(model(x), y)) * len(y) for x, y in data) / 9
    return {"loss": found["loss"], "own": own}


def other_metrics() -> dict[str, Any]:
    """Workers that measure different things."""
    here = start()
    names = ("auc", "loss")[here.worker_index() :]
    return here.evaluate(model_of(here), [], {name: METRICS[name] for name in names})


def by_hand() -> dict[str, Any]:
    """Metrics that each worker has updated by itself, then of all workers in one exchange; one of them has nothing."""
    here = start()
    scores, labels, users = clicks()
    metrics: dict[str, Any] = {"auc": AUC(), "gauc": GroupedAUC(), "loss": LogLoss(), "none": MAE()}
    first, last = ((0, 70), (70, 100))[here.worker_index()]
    for name in ("auc", "gauc", "loss"):
        more = (users[first:last],) if name == "gauc" else ()
        metrics[name].update(scores[first:last], labels[first:last], *more)
    weighted: dict[str, Any] = {"weighted auc": AUC(), "weighted gauc": GroupedAUC(), "weighted loss": LogLoss()}
    for name, metric in weighted.items():
        more = (users[first:last],) if "gauc" in name else ()
        weight = {"weight": scores[first:last] * 3} if here.worker_index() == 0 else {}
        metric.update(scores[first:last], labels[first:last], *more, **weight)
    metrics |= weighted
    if here.worker_index() == 1:
        metrics["none"].update(scores, labels)
    return gather(metrics, here.util)


def clicks() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, labels and users of 100 impressions."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(100, generator=generator)
    return scores, torch.rand(100, generator=generator) < scores, torch.arange(100) % 4


CASES = ("by_hand", "uneven", "joined", "in_the_model", "in_the_loader", "in_a_stream", "statistics", "other_metrics")
