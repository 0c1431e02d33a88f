"""Metrics of tensors on a GPU: the same values as in host memory, and no batch that waits for the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fleet import metrics
from fleet.errors import UsageError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture
def may_wait_again() -> Iterator[None]:
    """Behind the test, waiting for the GPU is no error any more."""
    yield
    torch.cuda.set_sync_debug_mode("default")


def cases() -> dict[str, tuple[Any, tuple[torch.Tensor, ...]]]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(2000, generator=generator)
    labels = torch.rand(2000, generator=generator) < scores
    users = torch.arange(2000) % 30
    rows = torch.randint(6, (200, 40), generator=generator).float()
    relevance = torch.randint(2, (200, 40), generator=generator)
    places = torch.randint(40, (200,), generator=generator)
    return {
        "auc": (metrics.AUC(), (scores, labels)),
        "auc of logits": (metrics.AUC(from_logits=True), (scores, labels)),
        "auc of equal parts": (metrics.AUC(1000), (scores, labels)),
        "gauc": (metrics.GroupedAUC(), (scores, labels, users)),
        "log loss": (metrics.LogLoss(), (scores, labels)),
        "calibration": (metrics.Calibration(), (scores, labels)),
        "accuracy": (metrics.Accuracy(), (scores, labels)),
        "mae": (metrics.MAE(), (scores, labels)),
        "rmse": (metrics.RMSE(), (scores, labels)),
        "ndcg": (metrics.NDCG(5), (rows, relevance)),
        "ndcg by place": (metrics.NDCG(5), (rows, places)),
        "recall": (metrics.Recall(5), (rows, relevance)),
        "hit rate": (metrics.HitRate(5), (rows, places)),
        "mrr": (metrics.MRR(), (rows, relevance)),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_the_same_as_in_host_memory(name: str) -> None:
    metric, given = cases()[name]
    metric.update(*given)
    expected = metric.compute()
    metric.reset()
    on_gpu = [column.cuda() for column in given]
    for part in zip(*(column.split(500) for column in on_gpu), strict=True):
        metric.update(*part)
    assert metric.compute() == pytest.approx(expected, rel=1e-6)
    assert metric.state().device.type == "cpu"
    other, _ = cases()[name]
    other.merge(metric.state())
    assert other.compute() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in cases() if name != "mrr"])
@pytest.mark.usefixtures("may_wait_again")
def test_no_batch_waits(name: str) -> None:
    metric, given = cases()[name]
    on_gpu = [column.cuda() for column in given]
    metric.update(*on_gpu)  # the counts move there once
    torch.cuda.set_sync_debug_mode("error")  # whatever would wait for the GPU raises
    metric.update(*on_gpu)


def test_what_is_wrong_is_told_when_the_metric_is_read() -> None:
    metric = metrics.AUC()
    metric.update(torch.tensor([0.5, float("nan"), 2.0]).cuda(), torch.tensor([1, 0, 0]).cuda())
    with pytest.raises(UsageError, match="scores must lie in .0, 1.*noticed on the GPU"):
        metric.compute()
