"""Layers of click models: data_norm, counts beside embeddings, a teacher's loss, hashed ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.programs import layers
from fleet_paddle.programs.ops.clicked.xxhash import xxh64
from fleet_programs.layers.io import fed
from fleet_programs.program.program import Program
from program_support.programs import building
from program_support.static_ops import SEED, Tried, check, feed_variable, normal

X = normal(5, 4)


def test_data_norm_normalises_and_adds_what_it_saw() -> None:
    with building() as built:
        x = fed("x", [-1, 4], "float64")
        out = layers.data_norm(
            x, param_attr={"batch_size": 4.0, "batch_sum": 2.0, "batch_square": 8.0}, summary_decay_rate=0.5, name="n"
        )
    test = built.main.clone(for_test=True)
    built.start()
    means, scales = 0.5, 0.5**0.5
    np.testing.assert_allclose(built.run({"x": X}, out)[0], (X - means) * scales)
    np.testing.assert_allclose(built["n.batch_size"], 4.0 * 0.5 + 5)
    np.testing.assert_allclose(built["n.batch_sum"], 2.0 * 0.5 + X.sum(0))
    squares = 8.0 * 0.5 + ((X - means) ** 2).sum(0) + 5 * 1e-5
    np.testing.assert_allclose(built["n.batch_square_sum"], squares)
    built.main = test
    kept = built["n.batch_sum"]
    built.run({"x": X}, out)
    np.testing.assert_array_equal(built["n.batch_sum"], kept)
    assert Program.parse_from_string(str(test)).to_json() == test.to_json()


def test_data_norm_of_slots_that_were_never_shown_and_its_gradients() -> None:
    x = X.copy()
    x[1, 0] = x[3, 2] = 0.0
    shown = torch.tensor(np.repeat(np.abs(x[:, ::2]) > 0, 2, 1).astype(np.float64))
    check(
        lambda x: layers.data_norm(x, slot_dim=2, enable_scale_and_shift=True, act="tanh"),
        {"x": x},
        lambda x, scale, bias: torch.tanh((x * scale + bias) * shown),
    )


@pytest.mark.parametrize("use", [True, False])
def test_continuous_value_model(use: bool) -> None:
    x, cvm = np.abs(normal(3, 5)), normal(3, 2)
    out, (slope, _) = _run(
        lambda x, cvm: layers.continuous_value_model(x, cvm, use), {"x": x, "cvm": cvm}, 5 if use else 3
    )
    logs = np.log(x[:, :2] + 1)
    expected = np.concatenate([logs[:, :1], logs[:, 1:] - logs[:, :1], x[:, 2:]], 1) if use else x[:, 2:]
    np.testing.assert_allclose(out[0], expected)
    np.testing.assert_allclose(slope, np.concatenate([cvm, out[1][:, -3:]], 1))


def test_continuous_value_model_of_ragged_rows() -> None:
    offsets, cvm = np.array([0, 2, 2, 3]), normal(3, 2)
    feeds = {"x": (np.abs(normal(3, 5)), offsets), "cvm": cvm}
    _, (slope, _) = _run(lambda x, cvm: layers.continuous_value_model(x, cvm), feeds, 5)
    np.testing.assert_allclose(slope[:, :2], cvm[[0, 0, 2]])


def _run(build: Any, feeds: Any, width: int) -> tuple[tuple[Any, Any], list[Any]]:
    tried, weights = Tried(build, feeds), normal(3, width)
    out, slopes = tried.run(weights)
    return (out, weights), slopes


def test_teacher_student_sigmoid_loss() -> None:
    label = np.array([[-2.0], [-1.0], [0.0], [0.3], [1.0], [1.7]])

    def reference(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        rows = []
        for one, kind in zip(x, label.tolist(), strict=True):
            click, teacher = (kind[0] in (-1.0,) or kind[0] >= 1), kind[0] - (kind[0] >= 1)
            entropy = torch.log(1 + torch.exp(one))
            loss = entropy - one * click
            rows.append(loss if kind[0] < 0 else loss + entropy - one * teacher)
        return torch.stack(rows)

    tried = Tried(layers.teacher_student_sigmoid_loss, {"input": normal(6, 1), "label": label})
    x = torch.from_numpy(tried.feeds["input"]).requires_grad_()
    expected = reference(x, torch.from_numpy(label))
    (slope,) = torch.autograd.grad(expected.sum(), x)
    out, slopes = tried.run(np.ones((6, 1)))
    np.testing.assert_allclose(out, expected.detach())
    np.testing.assert_allclose(slopes[0], slope)
    far = {"input": np.array([[16.0], [-16.0]]), "label": label[:2], SEED: np.ones((2, 1))}
    assert tried.built.run(far, "input@GRAD")[0].tolist() == [[0.0], [0.0]]


def test_hash_is_xxhash_of_each_row() -> None:
    with building() as built:
        ids = feed_variable("ids", (np.zeros((2, 1), np.int32), np.array([0, 1, 2])))
        out = layers.hash(ids, 10000, 4)
        wide = layers.hash(fed("wide", [-1, 1], "int64"), 10000, 2)
    assert (out.shape, out.lod) == ((-1, 4, 1), ids.lod)
    feeds = {"ids": (np.array([[2], [1]], np.int32), np.array([0, 1, 2])), "wide": np.array([[1], [2**32 + 1]])}
    found, others = built.run(feeds, out, wide)
    assert found[:, :, 0].tolist() == [[9662, 9217, 1129, 8487], [6897, 3218, 2013, 1241]]
    assert others[:, :, 0].tolist() == [[1269, 9609], [3868, 7268]]


def test_xxhash_of_more_bytes_than_its_lanes_take() -> None:
    text = b"Call me Ishmael. Some years ago--never mind how long precisely-"
    rows = np.frombuffer(text * 2, np.uint8).reshape(2, -1)
    assert xxh64(rows).tolist() == [0x02A2E85470D6FD96] * 2
    assert xxh64(rows[:, :0]).tolist() == [0xEF46DB3751D8E999] * 2


def test_bad_arguments() -> None:
    with building():
        x = fed("x", [-1, 4])
        with pytest.raises(UsageError, match="slot_dim must divide the 4 columns of X 'x', got 3"):
            layers.data_norm(x, slot_dim=3)
        with pytest.raises(UsageError, match="param_attr must be first values of batch_size, batch_sum"):
            layers.data_norm(x, param_attr={"mean": 1.0})
        with pytest.raises(NotSupportedError, match="sync_stats"):
            layers.data_norm(x, sync_stats=True)
        with pytest.raises(UsageError, match="CVM be \\[rows, 2\\]"):
            layers.continuous_value_model(x, x)
        with pytest.raises(UsageError, match="X 'x' must be int32 or int64, got float32"):
            layers.hash(x, 10)


def test_a_pruned_run_leaves_the_statistics() -> None:
    with building() as built:
        out = layers.data_norm(fed("x", [-1, 2]))
        static.optimizer.SGD(0.1).minimize(static.layers.mean(static.layers.fc(out, 1)))
    built.start()
    feed = {"x": np.arange(6, dtype=np.float32).reshape(3, 2)}
    built.run(feed)
    before = {name: tensor.clone() for name, tensor in built.scope.tensors.items()}
    static.Executor().run(built.main, feed, [out], scope=built.scope, use_prune=True)
    assert all(torch.equal(before[name], tensor) for name, tensor in built.scope.tensors.items())
    built.run(feed)
    assert not all(torch.equal(before[name], tensor) for name, tensor in built.scope.tensors.items())
