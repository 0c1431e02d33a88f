"""accuracy and auc: against counting by hand and against fleet.metrics, over batches that persist."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.metrics.roc import auc as auc_of_counts
from fleet_programs import layers
from fleet_programs.layers.io import fed
from fleet_programs.optimizer import SGD
from program_support.programs import Built, building

RNG = np.random.default_rng(3)


def test_accuracy_counts_labels_among_the_largest() -> None:
    with building() as built:
        x, label = fed("x", [-1, 3]), fed("label", [-1, 1], "int64")
        correct, total = layers.create_tensor("int64"), layers.create_tensor("int64")
        outs = [layers.accuracy(x, label), layers.accuracy(x, label, 2, correct, total), correct, total]
    scores = np.array([[0.1, 0.3, 0.2], [0.6, 0.4, 0.5], [0.1, 0.2, 0.3], [0.5, 0.1, 0.4]], np.float32)
    found = built.run({"x": scores, "label": np.array([[1], [1], [2], [2]])}, *outs)
    assert [one.tolist() for one in found] == [[0.5], [0.75], [3], [4]]
    assert [one.shape for one in outs] == [(1,)] * 4


def test_accuracy_refuses_labels_that_do_not_fit() -> None:
    with building(), pytest.raises(UsageError, match=r"test_metrics.py:\d+: .*Label 'y' must have shape \[n, 1\]"):
        layers.accuracy(fed("x", [-1, 3]), fed("y", [-1], "int64"))


def batch(size: int) -> dict[str, np.ndarray]:
    labels = RNG.integers(0, 2, (size, 1))
    probability = np.clip(0.5 + 0.2 * (labels - 0.5) + RNG.normal(0, 0.2, (size, 1)), 0, 1).astype(np.float32)
    return {"x": np.concatenate([1 - probability, probability], 1), "label": labels}


def measured(**settings: object) -> tuple[Built, list[object], list[str]]:
    with building() as built:
        x, label = fed("x", [-1, 2]), fed("label", [-1, 1], "int64")
        total, last, states = layers.auc(x, label, **settings)  # type: ignore[arg-type]
    built.start()
    return built, [total, last], [one.name for one in states]


def exact(batches: list[dict[str, np.ndarray]]) -> float:
    score = np.concatenate([one["x"][:, 1] for one in batches])
    truth = np.concatenate([one["label"][:, 0] for one in batches]) == 1
    above = score[truth][:, None] - score[~truth][None]
    return float((above > 0).mean() + (above == 0).mean() / 2)


@pytest.mark.parametrize("slide_steps", [0, 1, 2])
def test_auc_of_all_batches_and_of_the_last(slide_steps: int) -> None:
    built, outs, states = measured(slide_steps=slide_steps)
    batches = [batch(64) for _ in range(4)]
    for number, one in enumerate(batches, 1):
        total, last = built.run(one, *outs)
        assert total.item() == pytest.approx(exact(batches[:number]), abs=1e-3)
        recent = batches[:number][-slide_steps:] if slide_steps else batches[:number]
        assert last.item() == pytest.approx(exact(recent), abs=2e-3)
    stat_pos, stat_neg = (torch.from_numpy(built[name][0]) for name in states[2:])
    assert (stat_pos.dtype, stat_pos.shape) == (torch.int64, (4096,))
    assert int(stat_pos.sum() + stat_neg.sum()) == 256
    assert total.item() == pytest.approx(auc_of_counts(stat_neg, stat_pos), abs=1e-12)


def test_training_counts_whatever_is_fetched_and_evaluation_what_it_is_asked_for() -> None:
    with building() as built:
        x, label = fed("x", [-1, 2]), fed("label", [-1, 1], "int64")
        hidden = layers.batch_norm(layers.fc(x, 2))
        total, _, states = layers.auc(layers.softmax(hidden), label)
        testing = built.main.clone(for_test=True)
        SGD(0.1).minimize(layers.mean(hidden))
    built.start()
    built.run(batch(8))
    assert built[states[2].name].sum() + built[states[3].name].sum() == 8
    built.main = testing
    assert built.run({"x": batch(8)["x"]}, "fc_0.tmp_0")[0].shape == (8, 2), "no label and no statistics are needed"
    assert built[states[2].name].sum() + built[states[3].name].sum() == 8
    built.run(batch(8), total)
    assert built[states[2].name].sum() + built[states[3].name].sum() == 16
    assert "MeanOut" not in str(testing)


def test_auc_begins_anew_when_set_to_zero() -> None:
    built, outs, states = measured(num_thresholds=100)
    built.run(batch(8), *outs)
    assert built[states[2]].sum() + built[states[3]].sum() == 8
    for name in states:
        built.scope.tensors[name].zero_()
    one_class = batch(8)
    one_class["label"][:] = 1
    assert [value.item() for value in built.run(one_class, *outs)] == [0.0, 0.0]


def test_area_under_precision_and_recall() -> None:
    built, outs, _ = measured(curve="PR", num_thresholds=10)
    probability = np.array([0.95, 0.85, 0.75, 0.65, 0.55], np.float32)[:, None]
    feed = {"x": np.concatenate([1 - probability, probability], 1), "label": np.array([[1], [0], [1], [1], [0]])}
    assert built.run(feed, outs[0])[0].item() == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


def test_auc_takes_one_column_too() -> None:
    with building() as built:
        total, _, _ = layers.auc(fed("x", [-1, 1]), fed("label", [-1, 1], "int64"))
    built.start()
    feed = {"x": np.array([[0.9], [0.8], [0.3], [0.6]], np.float32), "label": np.array([[1], [0], [0], [1]])}
    assert built.run(feed, total)[0].tolist() == [0.75]


def test_auc_refuses_what_it_cannot_measure() -> None:
    with building() as built:
        x, label = fed("x", [-1, 1]), fed("label", [-1, 1], "int64")
        with pytest.raises(UsageError, match="curve must be ROC or PR, got 'ROX'"):
            layers.auc(x, label, curve="ROX")
        with pytest.raises(UsageError, match=r"Predict 'wide' must have shape \[n, 2\]"):
            layers.auc(fed("wide", [-1, 3]), label)
        with pytest.raises(NotSupportedError, match="topk must be 1, got 2"):
            layers.auc(x, label, topk=2)
        with pytest.raises(UsageError, match="num_thresholds must be at least 1"):
            layers.auc(x, label, num_thresholds=0)
    with building() as built:
        total, _, _ = layers.auc(fed("x", [-1, 1]), fed("label", [-1, 1], "int64"))
    built.start()
    with pytest.raises(UsageError, match=r"'x' must lie in \[0, 1\], got -3 to 3; apply softmax or sigmoid"):
        built.run({"x": np.array([[-3.0], [3.0]], np.float32), "label": np.array([[1], [0]])}, total)


def test_labels_of_auc_may_be_a_column_or_a_row() -> None:
    x = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], np.float32)
    found = []
    for shape in ([-1], [-1, 1]):
        with building() as built:
            area = layers.auc(fed("x", [-1, 2]), fed("label", shape, "int64"))[0]
        built.start()
        label = np.array([0, 1, 1]).reshape(shape)
        found.append(built.run({"x": x, "label": label}, area)[0].item())
    assert found == [1.0, 1.0]
    with building(), pytest.raises(UsageError, match=r"Label 'label' must have shape \[-1, 1\], got \[-1, 2\]"):
        layers.auc(fed("x", [-1, 2]), fed("label", [-1, 2], "int64"))
