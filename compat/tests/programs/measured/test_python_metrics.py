"""`fluid.metrics`: counts over batches, and the measures they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.metrics import AUC
from fleet_paddle.programs.measures import metrics, text_metrics

PREDS, LABELS = np.array([[0.9], [0.8], [0.3], [0.6]]), np.array([[1], [0], [1], [1]])


def test_accuracy_is_weighted_by_the_size_of_batches() -> None:
    accuracy = metrics.Accuracy()
    accuracy.update(np.array([0.5]), 2)
    accuracy.update(value=1.0, weight=np.array([6]))
    assert accuracy.eval() == 0.875
    accuracy.reset()
    with pytest.raises(NotReadyError, match="Accuracy has seen no batch"):
        accuracy.eval()


def test_precision_recall_and_several_at_once() -> None:
    both = metrics.CompositeMetric("both")
    both.add_metric(metrics.Precision("p"))
    both.add_metric(metrics.Recall())
    assert both.eval() == [0.0, 0.0]
    both.update(PREDS, LABELS)
    both.update(PREDS[:1], LABELS[:1])
    assert both.eval() == [3 / 4, 3 / 4]
    both.reset()
    assert both.eval() == [0.0, 0.0]
    assert str(both) == "both"


def test_auc_is_that_of_fleet_metrics() -> None:
    random = np.random.default_rng(0)
    scores = random.random(500)
    labels = (random.random(500) < scores).astype("int64")
    measured, known = metrics.Auc(num_thresholds=4096), AUC(4096)
    assert measured.eval() == 0.0
    for part in (slice(0, 200), slice(200, None)):
        measured.update(np.stack([1 - scores[part], scores[part]], 1), labels[part, None])
    import torch

    known.update(torch.tensor(scores), torch.tensor(labels))
    assert measured.eval() == pytest.approx(known.compute(), abs=1e-9)
    assert measured.get_config()["name"] == "Auc"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.Auc(curve="PR"), UsageError, "curve must be 'ROC'"),
        (lambda: metrics.Auc(num_thresholds=0), UsageError, "num_thresholds must be a whole number >= 1"),
        (lambda: metrics.Auc().update([2.0], [1]), UsageError, "preds must be from 0 to 1"),
        (lambda: metrics.Recall().update(PREDS, LABELS[:2]), UsageError, "must be as many, got 4 and 2"),
        (lambda: metrics.Precision().update("no", LABELS), UsageTypeError, "preds must be numbers"),
        (lambda: metrics.Accuracy().update(1.0, -1), UsageError, "weight must be >= 0"),
        (lambda: metrics.CompositeMetric().add_metric(3), UsageTypeError, "must be a MetricBase, got int"),  # type: ignore[arg-type]
    ],
)
def test_mistakes(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_chunks_are_counted_over_batches() -> None:
    chunks = text_metrics.ChunkEvaluator()
    assert chunks.eval() == (0.0, 0.0, 0.0)
    chunks.update(np.array([4]), np.array([5]), np.array([2]))
    chunks.update(np.int64(4), 5, 2)
    np.testing.assert_allclose(chunks.eval(), [0.5, 0.4, 2 * 0.5 * 0.4 / 0.9])
    assert chunks.get_config()["states"]["num_label_chunks"] == 10
    chunks.reset()
    assert chunks.num_correct_chunks == 0


def test_edit_distances_are_averaged_over_texts() -> None:
    distance = text_metrics.EditDistance("distance")
    with pytest.raises(NotReadyError, match="distance has seen no batch"):
        distance.eval()
    distance.update(np.array([[0.0], [2.0], [1.0]]), np.array([3]))
    distance.update(np.array([[0.0]]), 1)
    assert distance.eval() == (0.75, 0.5)
