"""`paddle.incubate`: averages of weights, segments, messages along edges."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotReadyError, UsageError
from fleet_programs.layers.io import fed
from program_support.programs import building

paddle: Any = import_module("paddle")


@pytest.fixture(autouse=True)
def _dynamic() -> Iterator[None]:
    with paddle.fluid.dygraph.guard():
        yield


def _weight() -> tuple[Any, Any]:
    layer = paddle.nn.Linear(2, 1, bias_attr=False)
    layer.weight.set_value(np.ones((2, 1), "float32"))
    return layer, paddle.optimizer.SGD(0.5, parameters=layer.parameters())


def _backward(layer: Any) -> None:
    layer.clear_gradients()
    paddle.sum(layer(paddle.ones([1, 2]))).backward()


@pytest.mark.parametrize("by", ["step", "minimize"])
def test_slow_weights_go_a_part_of_the_way(by: str) -> None:
    layer, sgd = _weight()
    ahead = paddle.incubate.LookAhead(sgd, alpha=0.2, k=2)
    found = []
    for _ in range(4):
        _backward(layer)
        ahead.minimize(None) if by == "minimize" else ahead.step()
        found.append(float(layer.weight[0, 0]))
    assert found == pytest.approx([0.5, 0.4, -0.1, 0.2])
    assert ahead.get_lr() == 0.5
    assert copy.copy(ahead).k == 2


def test_slow_weights_of_a_program() -> None:
    with building() as built:
        paddle.enable_static()
        loss = paddle.fluid.layers.reduce_sum(
            paddle.fluid.layers.fc(
                fed("x", [-1, 2]), 1, bias_attr=False, param_attr=paddle.fluid.initializer.Constant(1.0)
            )
        )
        paddle.incubate.LookAhead(paddle.optimizer.SGD(0.5), alpha=0.2, k=2).minimize(loss)
    built.start()
    found = [float(built.run({"x": np.ones((1, 2), "float32")}, loss)[0].sum()) for _ in range(5)]
    assert found == pytest.approx([2, 1, 0.8, -0.2, 0.4])


def test_averages_for_a_while() -> None:
    layer, sgd = _weight()
    average = paddle.incubate.ModelAverage(
        0.15, parameters=layer.parameters(), min_average_window=10, max_average_window=20
    )
    for _ in range(3):
        _backward(layer)
        sgd.step()
        average.step()
    with average.apply():
        assert float(layer.weight[0, 0]) == pytest.approx(0.0)  # of 0.5, 0, -0.5
    assert float(layer.weight[0, 0]) == pytest.approx(-0.5)
    average.clear_grad()
    assert layer.weight.grad is None
    with average.apply(need_restore=False):
        pass
    assert float(layer.weight[0, 0]) == pytest.approx(0.0)
    average.restore()
    assert float(layer.weight[0, 0]) == pytest.approx(-0.5)


def test_what_is_refused() -> None:
    _, sgd = _weight()
    with pytest.raises(UsageError, match="LookAhead: alpha must be at most 1, got 2"):
        paddle.incubate.LookAhead(sgd, alpha=2)
    with pytest.raises(UsageError, match="LookAhead: k must be a number of steps, 1 or more, got 0"):
        paddle.incubate.LookAhead(sgd, k=0)
    with pytest.raises(NotReadyError, match="no tensors to step"):
        paddle.incubate.LookAhead(object()).step()
    with pytest.raises(UsageError, match="pool_type must be sum, mean, max or min, got 'all'"):
        paddle.incubate.graph_send_recv(paddle.ones([1, 1]), paddle.zeros([1]), paddle.zeros([1]), "all")


X = [[0.0, 2, 3], [1, 4, 5], [2, 6, 7]]


def test_segments_and_edges() -> None:
    x, ids = paddle.to_tensor(X), paddle.to_tensor([0, 0, 2])
    assert paddle.incubate.segment_sum(x, ids).tolist() == [[1, 6, 8], [0, 0, 0], [2, 6, 7]]
    assert paddle.incubate.segment_mean(x, ids).tolist() == [[0.5, 3, 4], [0, 0, 0], [2, 6, 7]]
    assert paddle.incubate.segment_max(x, ids).tolist() == [[1, 4, 5], [0, 0, 0], [2, 6, 7]]
    assert paddle.incubate.segment_min(x, ids).tolist() == [[0, 2, 3], [0, 0, 0], [2, 6, 7]]
    source, target = paddle.to_tensor([0, 1, 2, 0]), paddle.to_tensor([1, 2, 1, 0])
    assert paddle.incubate.graph_send_recv(x, source, target).tolist() == [[0, 2, 3], [2, 8, 10], [1, 4, 5]]
    assert paddle.incubate.graph_send_recv(x, source[:2], target[:2], "max").tolist() == [[0, 0, 0], X[0], X[1]]


def test_softmax_with_a_mask() -> None:
    x = paddle.to_tensor(np.arange(18, dtype="float32").reshape(1, 2, 3, 3))
    mask = paddle.to_tensor(np.full((1, 1, 3, 3), -1e4, "float32")).triu(1)
    below = paddle.incubate.softmax_mask_fuse_upper_triangle(x)
    assert torch.allclose(below, paddle.incubate.softmax_mask_fuse(x, mask), atol=1e-6)
    assert below[0, 0, 0].tolist() == [1, 0, 0]
