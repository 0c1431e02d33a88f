"""Metrics of tensors: what they say of batches worked out by hand, or by a count of all pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fleet_paddle.imperative as paddle
from fleet.errors import FleetError
from fleet_paddle.imperative import metric

SCORES, LABELS = [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3]], [2, 1, 1]


@pytest.mark.parametrize(
    "label", [LABELS, np.array(LABELS)[:, None], np.eye(3)[LABELS]], ids=["classes", "column", "one_hot"]
)
def test_accuracy_over_batches(label: Any) -> None:
    measure = metric.Accuracy(topk=(1, 2))
    assert measure.update(measure.compute(paddle.to_tensor(SCORES), paddle.to_tensor(label))) == [2 / 3, 1.0]
    assert measure.update(np.array([[0.0, 0.0]])) == [0.0, 0.0]
    assert measure.accumulate() == [0.5, 0.75]
    assert measure.name() == ["acc_top1", "acc_top2"]
    measure.reset()
    assert measure.accumulate() == [0.0, 0.0]


def test_accuracy_of_one_k_is_a_number() -> None:
    measure = metric.Accuracy()
    assert measure.update(measure.compute(paddle.to_tensor(SCORES), paddle.to_tensor(LABELS))) == 2 / 3
    assert measure.name() == ["acc"]
    assert metric.Accuracy(name="mine").name() == ["mine"]


def test_precision_and_recall() -> None:
    precision, recall = metric.Precision(), metric.Recall("mine")
    for measure in (precision, recall):
        assert measure.accumulate() == 0.0
        measure.update(paddle.to_tensor([[0.9], [0.5], [0.2], [0.1]]), paddle.to_tensor([[1], [0], [1], [1]]))
    assert [precision.accumulate(), recall.accumulate()] == [1 / 2, 1 / 3]
    assert [precision.name(), recall.name()] == ["precision", "mine"]
    assert measure.compute(1, 2) == (1, 2)


def test_auc_is_the_share_of_pairs_in_order() -> None:
    random = np.random.default_rng(1)
    probabilities, labels = random.random(200), random.random(200) < 0.4
    measure = metric.Auc(num_thresholds=100000)
    assert measure.accumulate() == 0.0
    measure.update(np.stack([1 - probabilities, probabilities], 1)[:120], labels[:120])
    measure.update(paddle.to_tensor(probabilities[120:, None]), paddle.to_tensor(labels[120:, None]))
    wanted = (probabilities[labels][:, None] > probabilities[~labels]).mean()
    np.testing.assert_allclose(measure.accumulate(), wanted, atol=1e-4)
    assert measure.name() == "auc"


def test_accuracy_of_tensors() -> None:
    correct, total = paddle.zeros([1], "int64"), paddle.zeros([1], "int64")
    x, label = paddle.to_tensor(SCORES), paddle.to_tensor(np.array(LABELS)[:, None])
    assert float(metric.accuracy(x, label, correct=correct, total=total)) == pytest.approx(2 / 3)
    assert [int(correct), int(total)] == [2, 3]
    assert float(metric.accuracy(x, label, k=2)) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metric.Accuracy(topk=(0,)), "topk must be whole numbers >= 1"),
        (lambda: metric.Auc(curve="PR"), "curve must be 'ROC'"),
        (lambda: metric.Auc(num_thresholds=0), "num_thresholds must be a whole number >= 1"),
        (lambda: metric.Auc().update([[2.0]], [1]), "preds must be from 0 to 1"),
        (lambda: metric.Precision().update([0.5], [1, 0]), "must be as many, got 1 and 2"),
        (lambda: metric.Recall().update(["a"], [1]), "update takes numbers"),
    ],
)
def test_mistakes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        call()
