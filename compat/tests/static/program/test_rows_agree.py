"""A batch of one row, or of fewer, beside one of many: an error that names both, never repeated or cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fleet.errors import UsageError
from fleet_programs import gradients, layers
from fleet_programs.layers.io import fed
from fleet_programs.optimizer import SGD
from fleet_programs.program.variable import Variable
from program_support.programs import building

PAIRS: dict[str, Callable[[Variable, Variable], Variable]] = {
    "log_loss": layers.log_loss,
    "huber_loss": lambda x, y: layers.huber_loss(x, y, 1.0),
    "rank_loss": lambda x, y: layers.rank_loss(y, x, x),
    "margin_rank_loss": lambda x, y: layers.margin_rank_loss(y, x, x),
    "smooth_l1_loss": layers.smooth_l1,
    "smooth_l1_loss of weights": lambda x, y: layers.smooth_l1(x, x, y),
    "hinge_loss": layers.hinge_loss,
    "kldiv_loss": layers.kldiv_loss,
    "cross_entropy": lambda x, y: layers.cross_entropy(x, y, soft_label=True),
    "softmax_with_cross_entropy": lambda x, y: layers.softmax_with_cross_entropy(x, y, soft_label=True),
    "sum": lambda x, y: layers.sums([x, y]),
    "sum of three": lambda x, y: layers.sums([x, y, x]),
    "sum in fc": lambda x, y: layers.fc([x, y], 3),
}
LABELLED: dict[str, Callable[[Variable, Variable], Variable]] = {
    "bpr_loss": layers.bpr_loss,
    "accuracy": layers.accuracy,
    "auc": lambda x, label: layers.auc(layers.softmax(x), label)[0],
    "cross_entropy of more": lambda x, y: layers.cross_entropy(layers.unsqueeze(x, [1]), layers.unsqueeze(y, [1])),
}


@pytest.mark.parametrize("label", [*PAIRS, *LABELLED])
def test_rows_must_be_as_many(label: str) -> None:
    x = np.full((5, 2), 0.5, np.float32)
    y: npt.NDArray[Any] = x if label in PAIRS else np.zeros((5, 1), np.int64)
    with building() as built:
        out = {**PAIRS, **LABELLED}[label](fed("x", [-1, 2]), fed("y", [-1, y.shape[1]], y.dtype))
    built.start()
    assert built.run({"x": x, "y": y}, out)
    message = rf"test_rows_agree.py:\d+: {label.split(' ')[0]}: '.*' has shape \[.*\] and '.*' has \[.*\] in this batch"
    for count in (1, 3):
        with pytest.raises(UsageError, match=message):
            built.run({"x": x, "y": y[:count]}, out)


@pytest.mark.parametrize("soft", [False, True])
def test_training_without_a_fetch_sees_it_too(soft: bool) -> None:
    with building() as built:
        x, y = fed("x", [-1, 2]), fed("y", [-1, 2])
        p = layers.fc(x, 2, act="softmax")
        loss = layers.cross_entropy(p, y, soft_label=True) if soft else layers.log_loss(p, y)
        SGD(0.1).minimize(layers.reduce_sum(loss))
    built.start()
    x_of_5 = np.full((5, 2), 0.5, np.float32)
    with pytest.raises(UsageError, match="in this batch; feed as many rows of both"):
        built.run({"x": x_of_5, "y": x_of_5[:1]})


def test_one_value_is_a_factor() -> None:
    with building() as built:
        rows = layers.fc(fed("x", [-1, 2]), 3, bias_attr=False)
        flag = layers.cast(fed("count", [-1], "int64") > 0, "float32")
        out = rows * flag
        SGD(0.1).minimize(layers.reduce_sum(out))
    built.start()
    x = np.full((5, 2), 0.5, np.float32)
    found, plain = built.run({"x": x, "count": np.array([0])}, out, rows)
    assert (found == 0).all()
    (again,) = built.run({"x": x, "count": np.array([7])}, out)
    assert np.allclose(again, plain)
    with pytest.raises(UsageError, match=r"has shape \[5, 3\] and Y '.*' has \[2\] in this batch"):
        built.run({"x": x, "count": np.array([7, 8])}, out)


def test_rows_go_with_rows_behind_a_sign() -> None:
    with building() as built:
        x, y = fed("x", [-1, 3]), fed("y", [-1])
        out = [x * y, x + y, y + 1.0, x - fed("z", [3])]
    built.start()
    rows, numbers = np.arange(6, dtype="float32").reshape(2, 3), np.array([2, 3], "float32")
    feed = {"x": rows, "y": numbers, "z": rows[1]}
    wanted = [rows * numbers[:, None], rows + numbers[:, None], numbers + 1, rows - rows[1]]
    for found, one in zip(built.run(feed, *out), wanted, strict=True):
        np.testing.assert_array_equal(found, one)


def test_one_value_with_a_gradient_is_not_repeated() -> None:
    with building() as built:
        x = fed("x", [-1, 3])
        y = fed("y", [-1])
        y.stop_gradient = False
        loss = layers.reduce_sum(layers.fc(x, 3) * y)
        gradients(loss, y)
    built.start()
    with pytest.raises(UsageError, match="in this batch; feed as many rows of both"):
        built.run({"x": np.ones((5, 3), np.float32), "y": np.ones(1, np.float32)}, loss)


def test_sums_of_shapes_that_differ() -> None:
    with building(), pytest.raises(UsageError, match=r"sum: 'x' of shape \[-1, 4\] and 'y' of \[-1, 3\] do not add"):
        layers.sums([fed("x", [-1, 4]), fed("y", [-1, 3])])
