"""Weights of samples in every metric: against scikit-learn, against repeating samples, merged, and hostile ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    ndcg_score,
    roc_auc_score,
)
from torch.nn import functional

import fleet
from fleet import metrics
from fleet.errors import UsageError, UsageTypeError

N = 500
GENERATOR = torch.Generator().manual_seed(0)
SCORES = torch.rand(N, generator=GENERATOR, dtype=torch.float64)
LABELS = (torch.rand(N, generator=GENERATOR) < SCORES).long()
USERS = torch.randint(7, (N,), generator=GENERATOR)
ROWS = torch.rand(N, 6, generator=GENERATOR)
RIGHT = torch.randint(3, (N, 6), generator=GENERATOR)
WEIGHTS = torch.rand(N, generator=GENERATOR) * 3
COUNTS = torch.randint(4, (N,), generator=GENERATOR)
CLASSES = torch.rand(N, 4, generator=GENERATOR)


def each_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).abs()


CASES: dict[str, tuple[Callable[[], Any], tuple[torch.Tensor, ...]]] = {
    "AUC": (metrics.AUC, (SCORES, LABELS)),
    "AUC in a few parts": (lambda: metrics.AUC(50), (SCORES, LABELS)),
    "Accuracy": (metrics.Accuracy, (SCORES, LABELS)),
    "Accuracy of classes": (metrics.Accuracy, (CLASSES, USERS % 4)),
    "Calibration": (metrics.Calibration, (SCORES, LABELS)),
    "CalibrationError": (metrics.CalibrationError, (SCORES, LABELS)),
    "GroupedAUC": (metrics.GroupedAUC, (SCORES, LABELS, USERS)),
    "GroupedAUC by clicks": (lambda: metrics.GroupedAUC("clicks", max_entries=64), (SCORES, LABELS, USERS)),
    "HitRate": (lambda: metrics.HitRate(2), (ROWS, RIGHT)),
    "LogLoss": (metrics.LogLoss, (SCORES, LABELS)),
    "LogLoss of logits": (lambda: metrics.LogLoss(from_logits=True), (SCORES, LABELS)),
    "MAE": (metrics.MAE, (SCORES, LABELS)),
    "MRR": (metrics.MRR, (ROWS, RIGHT)),
    "Mean": (lambda: metrics.Mean(each_error), (SCORES, LABELS)),
    "NDCG": (metrics.NDCG, (ROWS, RIGHT)),
    "RMSE": (metrics.RMSE, (SCORES, LABELS)),
    "Recall": (lambda: metrics.Recall(2), (ROWS, RIGHT[:, 0])),
}
every = pytest.mark.parametrize("name", sorted(CASES))


def value(name: str, given: tuple[torch.Tensor, ...] | None = None, weight: torch.Tensor | None = None) -> float:
    make, own = CASES[name]
    metric = make()
    metric.update(*(own if given is None else given), **({} if weight is None else {"weight": weight}))
    return float(metric.compute())


def test_all_of_them_are_tested_here() -> None:
    assert {name.split()[0] for name in CASES} | {"Metric", "auc", "gather"} == set(metrics.__all__)


@every
def test_a_weight_is_a_sample_that_often(name: str) -> None:
    repeated = tuple(part.repeat_interleave(COUNTS, dim=0) for part in CASES[name][1])
    wanted = pytest.approx(value(name, repeated), rel=1e-12)
    assert value(name, weight=COUNTS) == wanted
    assert value(name, weight=COUNTS.float() * 0.5) == wanted
    assert value(name, weight=torch.ones(N)) == pytest.approx(value(name), rel=1e-12)


@every
def test_parts_merged_are_the_whole(name: str) -> None:
    """One of the workers has no weights, one no samples."""
    make, given = CASES[name]
    whole = value(name, weight=torch.cat([WEIGHTS[:300], torch.ones(200)]))
    parts = [make() for _ in range(3)]
    parts[0].update(*(part[:300] for part in given), weight=WEIGHTS[:300])
    parts[1].update(*(part[300:] for part in given))
    for order in ((0, 1, 2), (2, 1, 0)):
        metric = make()
        for place in order:
            metric.merge(parts[place].state())
        assert metric.compute() == pytest.approx(whole, rel=1e-10)

    told: list[Any] = []

    class All:
        def all_gather(self, input: Any) -> list[Any]:
            """What has been told so far, this last."""
            told.append(input)
            return told

    for part in (parts[2], parts[1]):
        metrics.gather({"m": part}, All())
    assert metrics.gather({"m": parts[0]}, All()) == pytest.approx({"m": whole}, rel=1e-10)
    parts[0].reset()
    parts[0].update(*given)
    assert parts[0].compute() == pytest.approx(value(name), rel=1e-12)


def test_values_are_scikit_learns() -> None:
    scores, labels, weights = SCORES.numpy(), LABELS.numpy(), WEIGHTS.numpy()
    near: Any = {"rel": 1e-6}
    assert value("AUC", weight=WEIGHTS) == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights), abs=1e-4)
    assert value("LogLoss", weight=WEIGHTS) == pytest.approx(log_loss(labels, scores, sample_weight=weights), **near)
    assert value("MAE", weight=WEIGHTS) == pytest.approx(
        mean_absolute_error(labels, scores, sample_weight=weights), **near
    )
    assert value("RMSE", weight=WEIGHTS) ** 2 == pytest.approx(
        mean_squared_error(labels, scores, sample_weight=weights), **near
    )
    assert value("Accuracy", weight=WEIGHTS) == pytest.approx(
        accuracy_score(labels, scores >= 0.5, sample_weight=weights), **near
    )
    assert value("Accuracy of classes", weight=WEIGHTS) == pytest.approx(
        accuracy_score(USERS % 4, CLASSES.argmax(1), sample_weight=weights), **near
    )
    right = RIGHT.numpy().copy()
    right[:, 0] = 1  # scikit-learn counts lists without a right item as 0, Fleet leaves them out
    assert value("NDCG", (ROWS, torch.from_numpy(right)), WEIGHTS) == pytest.approx(
        ndcg_score(right, ROWS.numpy(), k=10, sample_weight=weights), **near
    )
    mean = np.average(functional.l1_loss(SCORES, LABELS.double(), reduction="none"), weights=weights)
    assert value("Mean", weight=WEIGHTS) == pytest.approx(mean, **near)
    shares, means = calibration_curve(labels, scores, n_bins=20)
    metric = metrics.Calibration()
    metric.update(SCORES, LABELS, weight=torch.full((N,), 0.25))
    assert [one.actual for one in metric.table()] == pytest.approx(shares.tolist())
    assert [one.predicted for one in metric.table()] == pytest.approx(means.tolist())
    assert sum(one.num_samples for one in metric.table()) == N / 4


def test_grouped_auc_is_the_mean_of_scikit_learns() -> None:
    areas, totals = [], []
    for user in range(7):
        of = torch.eq(USERS, user).numpy()
        areas.append(roc_auc_score(LABELS[of], SCORES.float()[of], sample_weight=WEIGHTS[of]))
        totals.append(float(WEIGHTS[of].sum()))
    assert value("GroupedAUC", weight=WEIGHTS) == pytest.approx(np.average(areas, weights=totals), rel=1e-9)


@every
def test_hostile_weights_are_refused_and_not_counted(name: str) -> None:
    make, given = CASES[name]
    metric = make()
    metric.update(*given, weight=WEIGHTS)
    before = metric.compute()
    for wrong in (-1.0, float("nan"), float("inf")):
        weights = WEIGHTS.clone()
        weights[3] = wrong
        with pytest.raises(UsageError, match=f"^weight must be finite and at least 0, got {wrong:g}$"):
            metric.update(*given, weight=weights)
    for shape in ((N, 1), (1,), (N + 1,), ()):
        with pytest.raises(UsageError, match=r"^weight must be a number for each (sample|list), of shape \[500\], got"):
            metric.update(*given, weight=torch.ones(shape))
    with pytest.raises(UsageTypeError, match="^weight must be a tensor, got list$"):
        metric.update(*given, weight=[1.0] * N)
    assert metric.compute() == before
    assert value(name, weight=torch.zeros(N)) != value(name)  # nothing was measured: NaN


def test_a_mean_with_weights_needs_a_number_for_each_sample() -> None:
    metric = metrics.Mean(functional.l1_loss)
    with pytest.raises(
        UsageError, match=r"l1_loss must give one number for each of the 500 samples .* without a reduc"
    ):
        metric.update(SCORES, LABELS, weight=WEIGHTS)


def test_evaluate_hands_weights_to_every_metric() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.Sigmoid(), torch.nn.Flatten(0))
    data = [(part, slice(first, first + 100)) for first, part in zip(range(0, N, 100), ROWS.split(100), strict=True)]

    def step(model: Any, batch: Any) -> Any:
        rows, of = batch
        return model(rows), LABELS[of], USERS[of], WEIGHTS[of]

    asked: dict[str, Any] = {
        "auc": metrics.AUC(),
        "gauc": metrics.GroupedAUC(),
        "loss": metrics.LogLoss(),
        "error": each_error,
    }
    found = fleet.evaluate(model, data, asked, step=step)
    for name, metric in asked.items():
        wanted: Any = metric if name != "error" else metrics.Mean(each_error)
        wanted = copy.deepcopy(wanted)
        with torch.no_grad():
            wanted.update(model(ROWS), LABELS, *((USERS,) if name == "gauc" else ()), weight=WEIGHTS)
        assert found[name] == pytest.approx(wanted.compute(), rel=1e-7)  # batches of another size round otherwise

    class Own(metrics.MAE):
        def update(self, outputs: Any, targets: Any) -> None:  # type: ignore[override]
            """Without weights."""

    with pytest.raises(UsageError, match=r"step gives weights, and Own.update takes none; let it take weight="):
        fleet.evaluate(model, data, {"own": Own()}, step=step)
    assert fleet.evaluate(model, data, {"own": Own()}, step=lambda *given: (*step(*given)[:2], None, None))
    with pytest.raises(UsageError, match="step gives outputs, targets, groups and weights, got 5 values"):
        fleet.evaluate(model, data, {"own": Own()}, step=lambda *given: (*step(*given), 1))
