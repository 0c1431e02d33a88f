"""Metrics: against scikit-learn and against counting everything; parts merged are the whole; nonsense is refused."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, ndcg_score, roc_auc_score

from fleet import metrics
from fleet.errors import UsageError, UsageTypeError
from fleet.metrics import calibration, grouped, means, ranking

few = settings(max_examples=40, deadline=None)


def clicks(count: int = 1500, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, labels, users."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, generator=generator) - 1
    labels = torch.rand(count, generator=generator) < torch.sigmoid(logits)
    users = torch.randint(-8, 8, (count,), generator=generator)
    return torch.sigmoid(logits + 0.3 * torch.randn(count, generator=generator)), labels, users


def lists(count: int = 60, items: int = 12, levels: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with many ties, and how right each item is."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(levels, (count, items), generator=generator).float()
    relevance = torch.randint(4, (count, items), generator=generator) * torch.randint(
        2, (count, items), generator=generator
    )
    relevance[:, 0] = 1
    return scores, relevance


@pytest.mark.parametrize("module", [calibration, grouped, means, ranking])
def test_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def value(metric: Any, *given: torch.Tensor) -> float:
    metric.update(*given)
    return float(metric.compute())


def test_log_loss_is_scikit_learns() -> None:
    scores, labels, _ = clicks()
    scores[:2] = torch.tensor([0.0, 1.0])
    assert value(metrics.LogLoss(), scores, labels) == pytest.approx(log_loss(labels, scores.numpy()), rel=1e-6)
    logits = torch.logit(scores[2:].double())
    exact = log_loss(labels[2:], scores[2:].double().numpy())
    assert value(metrics.LogLoss(from_logits=True), logits, labels[2:]) == pytest.approx(exact, rel=1e-9)


def test_errors_of_numbers() -> None:
    outputs, targets = torch.randn(1000), torch.randn(1000)
    difference = (outputs - targets).double()
    assert value(metrics.MAE(), outputs, targets) == pytest.approx(float(difference.abs().mean()), rel=1e-6)
    exact = float(difference.square().mean().sqrt())
    assert value(metrics.RMSE(), outputs.view(10, 100), targets.view(10, 100)) == pytest.approx(exact, rel=1e-6)


def test_accuracy_of_classes_and_of_probabilities() -> None:
    outputs, targets = torch.randn(500, 3), torch.randint(3, (500,))
    assert value(metrics.Accuracy(), outputs, targets) == float((outputs.argmax(1) == targets).double().mean())
    scores, labels, _ = clicks()
    expected = float(((scores >= 0.5) == labels).double().mean())
    assert value(metrics.Accuracy(), scores, labels) == expected
    assert value(metrics.Accuracy(threshold=0), torch.logit(scores), labels) == expected


def test_calibration_by_hand_and_in_parts() -> None:
    scores, labels, _ = clicks()
    metric = metrics.Calibration(10)
    assert value(metric, scores, labels) == pytest.approx(float(scores.double().sum() / labels.sum()), rel=1e-9)
    table = metric.table()
    assert sum(row.num_samples for row in table) == len(scores)
    for row in table:
        chosen = (scores * 10).long().clamp(max=9) == round(row.low * 10)
        assert row.num_samples == int(chosen.sum())
        assert row.predicted == pytest.approx(float(scores[chosen].double().mean()), rel=1e-6)
        assert row.actual == pytest.approx(float(labels[chosen].double().mean()), rel=1e-9)
        assert row.low <= row.predicted <= row.high
    exact = sum(row.num_samples * abs(row.predicted - row.actual) for row in table) / len(scores)
    assert metric.error() == pytest.approx(exact, rel=1e-9)
    assert value(metrics.CalibrationError(10), scores, labels) == metric.error()
    assert value(metrics.Calibration(10, from_logits=True), torch.logit(scores.double()), labels) == pytest.approx(
        metric.compute(), rel=1e-6
    )
    assert math.isnan(value(metrics.Calibration(), torch.tensor([0.5]), torch.tensor([0])))


def by_group(scores: torch.Tensor, labels: torch.Tensor, users: torch.Tensor, weight: str = "impressions") -> float:
    """scikit-learn's AUC of every group."""
    total = weights = 0.0
    for user in users.unique():
        own = users == user
        if labels[own].unique().numel() == 2:
            size = {"impressions": int(own.sum()), "clicks": int(labels[own].sum()), "equal": 1}[weight]
            total += size * roc_auc_score(labels[own], scores[own])
            weights += size
    return total / weights if weights else math.nan


@pytest.mark.parametrize("weight", ["impressions", "clicks", "equal"])
def test_grouped_auc_is_that_of_each_group(weight: Any) -> None:
    given = clicks()
    assert value(metrics.GroupedAUC(weight), *given) == pytest.approx(by_group(*given, weight), abs=1e-12)


@few
@given(st.lists(st.tuples(st.floats(-4, 4, width=16), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40))
def test_grouped_auc_with_ties_and_lone_labels(samples: list[tuple[float, bool, int]]) -> None:
    scores, labels, users = (torch.tensor(column) for column in zip(*samples, strict=True))
    metric = metrics.GroupedAUC()
    for place in range(0, len(samples), 7):
        metric.update(scores[place : place + 7], labels[place : place + 7], users[place : place + 7])
    assert metric.compute() == pytest.approx(by_group(scores, labels, users), abs=1e-12, nan_ok=True)


def test_grouped_auc_stays_within_its_memory() -> None:
    scores, labels, users = clicks(12_000)
    metric = metrics.GroupedAUC(max_entries=3000)
    for part in zip(scores.split(1500), labels.split(1500), users.split(1500), strict=True):
        metric.update(*part)
    assert metric.state().shape[1] <= 3001
    assert metric.compute() == pytest.approx(by_group(scores, labels, users), abs=2e-3)
    fine, coarse = metrics.GroupedAUC(max_entries=3000), metrics.GroupedAUC(max_entries=3000)
    fine.update(scores[:100], labels[:100], users[:100])
    coarse.merge(metric.state())
    coarse.merge(fine.state())
    fine.merge(metric.state())
    assert fine.compute() == coarse.compute()
    with pytest.raises(UsageError, match="more groups than max_entries=16 allows"):
        value(metrics.GroupedAUC(max_entries=16), scores, labels, torch.arange(12_000))


def over_orders(scores: Sequence[float], measure: Callable[[list[int]], float]) -> float:
    """The mean of a measure over all orders of the items in which higher scores come first."""
    orders = [
        order for order in permutations(range(len(scores))) if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return sum(measure(list(order)) for order in orders) / len(orders)


ranked = st.integers(2, 5).flatmap(
    lambda items: st.tuples(
        st.lists(st.integers(0, 2), min_size=items, max_size=items),
        st.lists(st.integers(0, 2), min_size=items, max_size=items).filter(any),
        st.integers(1, items + 1),
    )
)


@few
@given(ranked)
def test_ranking_is_the_mean_over_the_orders_of_ties(given: tuple[list[int], list[int], int]) -> None:
    scores, relevance, k = given
    tensors = torch.tensor([scores]).float(), torch.tensor([relevance])
    right = [place for place, how in enumerate(relevance) if how]

    def first(order: list[int]) -> int:
        return next(rank for rank, item in enumerate(order, 1) if item in right)

    expected = {
        metrics.Recall(k): lambda order: len(set(order[:k]) & set(right)) / len(right),
        metrics.HitRate(k): lambda order: float(first(order) <= k),
        metrics.MRR(): lambda order: 1 / first(order),
        metrics.MRR(k): lambda order: 1 / first(order) if first(order) <= k else 0,
    }
    for metric, measure in expected.items():
        assert value(metric, *tensors) == pytest.approx(over_orders(scores, measure), abs=1e-9), metric


@pytest.mark.parametrize("k", [1, 3, 10, None])
@pytest.mark.parametrize("levels", [3, 10_000])
def test_ndcg_is_scikit_learns(k: int | None, levels: int) -> None:
    scores, relevance = lists(levels=levels)
    assert value(metrics.NDCG(k), scores, relevance) == pytest.approx(ndcg_score(relevance, scores, k=k), abs=1e-9)
    gains = 2**relevance - 1
    exact = ndcg_score(gains, scores, k=k)
    assert value(metrics.NDCG(k, exponential=True), scores, relevance) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("make", [metrics.NDCG, metrics.Recall, metrics.HitRate, metrics.MRR])
@pytest.mark.parametrize("levels", [3, 10_000])
def test_the_only_right_item_may_be_given_by_its_place(make: Any, levels: int) -> None:
    scores, _ = lists(levels=levels)
    scores[:, 3] = -torch.inf  # what is left out of a list
    places = torch.randint(12, (60,))
    relevance = torch.nn.functional.one_hot(places, 12)
    for k in (1, 4, 12, 50):
        assert value(make(k), scores, places) == pytest.approx(value(make(k), scores, relevance), abs=1e-12)


def test_lists_without_a_right_item_do_not_count() -> None:
    scores, relevance = lists(8)
    relevance[3:] = 0
    for make in (metrics.NDCG, metrics.Recall, metrics.HitRate, metrics.MRR):
        assert value(make(3), scores, relevance) == value(make(3), scores[:3], relevance[:3])
        assert math.isnan(value(make(3), scores[3:], relevance[3:]))


def everything() -> dict[str, tuple[Any, tuple[torch.Tensor, ...]]]:
    scores, labels, users = clicks(600)
    rows, relevance = lists(600)
    return {
        "AUC": (metrics.AUC(), (scores, labels)),
        "Accuracy": (metrics.Accuracy(), (scores, labels)),
        "Calibration": (metrics.Calibration(), (scores, labels)),
        "CalibrationError": (metrics.CalibrationError(), (scores, labels)),
        "GroupedAUC": (metrics.GroupedAUC(), (scores, labels, users)),
        "HitRate": (metrics.HitRate(2), (rows, relevance)),
        "LogLoss": (metrics.LogLoss(), (scores, labels)),
        "MAE": (metrics.MAE(), (scores, labels)),
        "MRR": (metrics.MRR(), (rows, relevance)),
        "NDCG": (metrics.NDCG(3), (rows, relevance)),
        "RMSE": (metrics.RMSE(), (scores, labels)),
        "Recall": (metrics.Recall(2), (rows, relevance)),
    }


def test_all_of_them_are_tested_here() -> None:
    assert set(everything()) | {"Mean", "Metric", "auc", "gather"} == set(metrics.__all__)


@pytest.mark.parametrize("name", sorted(everything()))
def test_parts_merged_are_the_whole(name: str) -> None:
    metric: Any
    metric, given = everything()[name]
    assert all(hasattr(metric, name) for name in ("update", "state", "merge", "compute", "reset"))
    assert math.isnan(metric.compute())
    metric.update(*given)
    whole, state = metric.compute(), metric.state()
    parts = []
    for first, last in ((0, 250), (250, 251), (251, 251), (251, 600)):
        part, _ = everything()[name]
        part.update(*(column[first:last] for column in given))
        parts.append(part.state())
    metric.reset()
    assert math.isnan(metric.compute())
    for part in parts:
        metric.merge(part)
    assert metric.compute() == pytest.approx(whole, rel=1e-12)
    assert metric.state().shape == state.shape
    metric.state().zero_()
    assert metric.compute() == pytest.approx(whole, rel=1e-12)
    with pytest.raises(UsageTypeError, match="state must be a tensor, got list"):
        metric.merge([1])
    with pytest.raises(UsageError, match="state must be the"):
        metric.merge(torch.zeros(7, 7))


@pytest.mark.parametrize("name", sorted(everything()))
def test_what_is_no_number_is_refused_and_not_counted(name: str) -> None:
    metric, (outputs, *rest) = everything()[name]
    with pytest.raises(UsageTypeError, match="must be a tensor, got list"):
        metric.update([0.5], *rest)
    with pytest.raises(UsageError, match="must (be|have|lie)"):
        metric.update(outputs[:5], rest[0][:4], *(column[:5] for column in rest[1:]))
    broken = outputs.clone()
    broken.view(-1)[1] = math.nan
    with pytest.raises(UsageError, match="must (be|lie).*got nan"):
        metric.update(broken, *rest)
    assert math.isnan(metric.compute())


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: metrics.NDCG(0), UsageError, "k must be at least 1, got 0"),
        (lambda: metrics.Recall(2.5), UsageTypeError, "k must be an int"),  # type: ignore[arg-type]
        (lambda: metrics.Calibration(0), UsageError, "num_bins must be at least 1"),
        (lambda: metrics.LogLoss(from_logits=1), UsageTypeError, "from_logits must be True or False"),  # type: ignore[arg-type]
        (lambda: metrics.GroupedAUC("users"), UsageError, "weight must be 'impressions'"),  # type: ignore[arg-type]
        (
            lambda: metrics.LogLoss().update(torch.tensor([1.5]), torch.tensor([1])),
            UsageError,
            "lie in .0, 1., got 1.5",
        ),
        (lambda: metrics.LogLoss().update(torch.tensor([0.5]), torch.tensor([3])), UsageError, "0 or 1, got 3"),
        (lambda: metrics.MRR().update(torch.rand(2, 3), torch.tensor([0, 3])), UsageError, "from 0 to 2, got 3"),
        (lambda: metrics.MRR().update(torch.rand(2, 3), torch.rand(2)), UsageError, "targets must be the places"),
        (lambda: metrics.MRR().update(torch.rand(2, 3), -torch.ones(2, 3)), UsageError, "at least 0, got -1"),
        (
            lambda: metrics.MRR().update(torch.rand(2), torch.rand(2)),
            UsageError,
            "scores must be numbers .lists, items",
        ),
        (lambda: metrics.GroupedAUC().update(torch.rand(2), torch.ones(2)), UsageTypeError, "groups must be a tensor"),
        (
            lambda: metrics.GroupedAUC().update(torch.rand(2), torch.ones(2), torch.rand(2)),
            UsageTypeError,
            "groups must be integers",
        ),
        (
            lambda: metrics.GroupedAUC().update(torch.rand(2), torch.ones(2), torch.arange(3)),
            UsageError,
            "groups must be as many as scores, got 3 and 2",
        ),
    ],
)
def test_what_cannot_be_is_refused(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


class Others:
    """What `fleet.util` gives where every worker says the same, or one of them something else."""

    def __init__(self, num: int, instead: bytes | None = None) -> None:
        self._num, self._instead = num, instead

    def all_gather(self, input: Any) -> list[Any]:
        others = [input if self._instead is None else np.frombuffer(self._instead, dtype=np.uint8)]
        return [input, *others * (self._num - 1)]


def test_gather_merges_all_of_a_dict() -> None:
    made = {name: metric for name, (metric, _) in everything().items()}
    for name, (_, batch) in everything().items():
        made[name].update(*batch)
    before = {name: metric.compute() for name, metric in made.items()}
    found = metrics.gather(made, Others(3))
    assert list(found) == list(made)
    assert found == pytest.approx(before, rel=1e-9)
    assert {name: metric.compute() for name, metric in made.items()} == before
    with pytest.raises(UsageError, match="gather: worker 1 has the metrics auc, this one loss"):
        metrics.gather({"loss": metrics.MAE()}, Others(2, b'{"names": ["auc"], "states": []}\n'))
    with pytest.raises(UsageTypeError, match="gather: 'x' is a int, no metric"):
        metrics.gather({"x": 1}, Others(1))  # type: ignore[dict-item]
    with pytest.raises(UsageTypeError, match="gather takes metrics by name"):
        metrics.gather([], Others(1))  # type: ignore[arg-type]


def test_gather_refuses_other_metrics_under_one_name() -> None:
    class Told:
        def __init__(self, other: metrics.Metric) -> None:
            self._data: Any = None
            metrics.gather({"m": other}, self)

        def all_gather(self, input: Any) -> list[Any]:
            before, self._data = self._data, input
            return [input] if before is None else [input, before]

    pairs: list[tuple[metrics.Metric, metrics.Metric]] = [
        (metrics.NDCG(5), metrics.NDCG(10)),
        (metrics.MAE(), metrics.RMSE()),
        (metrics.GroupedAUC("equal"), metrics.GroupedAUC("clicks")),
    ]
    for own, other in pairs:
        with pytest.raises(UsageError, match=r"gather: 'm' is .* on worker 1 and .* on this one; use"):
            metrics.gather({"m": own}, Told(other))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_log_loss_of_rare_events_in_16_bits(dtype: torch.dtype) -> None:
    scores = torch.full((8,), 2.0**-10, dtype=dtype)
    metric = metrics.LogLoss()
    metric.update(scores, torch.zeros(8))
    assert metric.compute() == pytest.approx(-math.log1p(-(2.0**-10)), rel=1e-9)


def test_settings_and_lists_that_make_no_sense() -> None:
    with pytest.raises(UsageTypeError, match="from_logits must be True or False"):
        metrics.AUC(from_logits="no")  # type: ignore[arg-type]
    with pytest.raises(UsageTypeError, match="threshold must be a number"):
        metrics.Accuracy("x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"scores must be numbers \[lists, items\], got torch.float32 \[3, 0\]"):
        metrics.MRR().update(torch.empty(3, 0), torch.empty(3, 0))
