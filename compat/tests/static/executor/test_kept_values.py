"""Whose memory values are in: what is handed over is copied, what comes back can be kept, and feeds become one."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import UsageError
from fleet_programs import layers, optimizer
from fleet_programs.executor.lod import Fetched, LoDTensor
from fleet_programs.executor.options import BuildStrategy, ExecutionStrategy
from fleet_programs.executor.scope import scope_guard
from fleet_programs.feeding.reader import PyReader
from fleet_programs.layers.io import fed
from fleet_programs.optimizer.moving_average import ExponentialMovingAverage
from program_support.programs import building


@pytest.fixture
def built() -> Iterator[Any]:
    with building() as one, scope_guard(one.scope):
        yield one


def test_a_generator_may_fill_its_arrays_anew(built: Any) -> None:
    variables = [
        fed("x", [-1, 1]),
        fed("words", [-1, 1], "int64", 1),
        fed("t", [-1, 1]),
        fed("pair", [-1, 1], lod_level=1),
    ]
    x, words, t = np.zeros((2, 1), np.float32), LoDTensor(np.zeros((2, 1), np.int64), [0, 2]), torch.zeros(1, 1)

    def batches() -> Iterator[Any]:
        for number in range(4):
            for one in (x, words.values, t):
                one[:] = number
            yield [x, words, t, (x, [0, 1, 2])]

    found = list(PyReader(variables, capacity=4).decorate_batch_generator(batches))
    for name in ("x", "t"):
        assert [feed[name][0].item() for feed in found] == [0, 1, 2, 3]
    assert [feed["words"].values[1].item() for feed in found] == [0, 1, 2, 3]
    assert [feed["pair"][0][1].item() for feed in found] == [0, 1, 2, 3]


def test_a_lod_tensor_has_values_of_its_own() -> None:
    mine = np.zeros((2, 1), np.float32)
    one, other = LoDTensor(mine, [0, 2]), LoDTensor()
    other.set(mine)
    mine[:] = 7
    assert [float(each.values.sum()) for each in (one, other)] == [0, 0]
    tensor = torch.zeros(2, 1)
    assert LoDTensor(tensor).values is tensor


def test_fetched_tensors_are_saved_and_copied(built: Any) -> None:
    out = fed("x", [-1, 2]) * 2.0
    (value,) = static.Executor().run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[out], return_numpy=False)
    assert (type(value), value.lod(), type(value + 1)) == (Fetched, [], torch.Tensor)
    file = io.BytesIO()
    torch.save({"value": value}, file)
    file.seek(0)
    for kept in (torch.load(file)["value"], pickle.loads(pickle.dumps(value))):
        assert type(kept) is torch.Tensor
        assert kept.tolist() == [[2, 2]]
    one, same = copy.deepcopy([value, value])
    assert one is same
    assert (type(one), one.tolist(), one.data_ptr() == value.data_ptr()) == (Fetched, [[2, 2]], False)


def test_feeds_of_several_places_in_every_form_that_one_has(built: Any) -> None:
    x, words, rate = fed("x", [-1, 1]), fed("words", [-1, 1], "int64", 1), fed("rate", [1])
    feeds: list[Any] = [
        {"x": LoDTensor(np.full((2, 1), n, np.float32)), "words": [[n], [n, n]], "rate": np.array([0.5], np.float32)}
        for n in (1, 2)
    ]
    exe = static.Executor()
    got = exe.run(built.main, feeds, [x, words, rate], return_numpy=False)
    assert [np.array(one).ravel().tolist() for one in got] == [[1, 1, 2, 2], [1, 1, 1, 2, 2, 2], [0.5]]
    assert got[1].recursive_sequence_lengths() == [[1, 2, 1, 2]]
    feeds[1]["rate"] = np.array([0.1], np.float32)
    with pytest.raises(
        UsageError, match=r"feed 'rate' has the shape \[1\] for all places together; give each the same"
    ):
        exe.run(built.main, feeds, [x])


def test_settings_that_are_alike_have_one_key() -> None:
    one, other = BuildStrategy(), BuildStrategy(memory_optimize=True)
    first = one.key
    assert BuildStrategy().key == first != other.key
    one.memory_optimize = True
    assert one.key == other.key == copy.deepcopy(one).key == pickle.loads(pickle.dumps(one)).key
    one.memory_optimize = False
    assert one.key == first != ExecutionStrategy().key
    with pytest.raises(UsageError, match=r"trainers_endpoints\[0\] must be text, got \[1\]"):
        one.trainers_endpoints = [[1]]  # type: ignore[list-item]


def test_averages_are_applied_once(built: Any) -> None:
    optimizer.SGD(1.0).minimize(layers.mean(layers.fc(fed("x", [-1, 2]), 1, bias_attr=False)))
    ema = ExponentialMovingAverage(0.5)
    ema.update()
    exe = static.Executor()
    exe.run(static.default_startup_program())
    for _ in range(2):
        exe.run(feed={"x": np.ones((1, 2), np.float32)})
    last = built["fc_0.w_0"].copy()
    with ema.apply(exe, need_restore=False):
        pass
    with pytest.raises(UsageError, match=r"the averages are applied already; restore\(\) first"), ema.apply(exe):
        pass
    ema.restore(exe)
    assert (built["fc_0.w_0"] == last).all()


def test_a_pruned_run_leaves_statistics_and_counters(built: Any) -> None:
    rate = layers.learning_rate.exponential_decay(0.1, 1, 0.5)
    x = fed("x", [-1, 2])
    out = layers.batch_norm(x)
    optimizer.SGD(rate).minimize(layers.mean(layers.fc(out, 1)))
    exe = static.Executor()
    exe.run(static.default_startup_program())
    feed = {"x": np.arange(6, dtype=np.float32).reshape(3, 2)}
    exe.run(feed=feed)
    before = {name: tensor.clone() for name, tensor in built.scope.tensors.items()}
    for _ in range(2):
        found, now = exe.run(feed=feed, fetch_list=[out, rate], use_prune=True)
    assert found.shape == (3, 2)
    assert float(now) == pytest.approx(0.1), "as in the last step"
    assert [name for name, tensor in built.scope.tensors.items() if not torch.equal(before[name], tensor)] == []


def test_smaller_whole_numbers_are_taken_for_larger_ones() -> None:
    tensor = static.Scope().var("x").get_tensor()
    tensor.set(np.zeros(2, np.int64))
    tensor.set(np.array([1, 2], np.int32))
    assert (np.array(tensor).tolist(), str(np.array(tensor).dtype)) == ([1, 2], "int64")
    with pytest.raises(UsageError, match=r"variable 'x' is int64\[2\], got float32\[2\]"):
        tensor.set(np.zeros(2, np.float32))


def test_a_sum_may_be_written_over_what_was_added_to() -> None:
    with building() as built:
        x, total = fed("x", [-1]), layers.create_global_var([1], 10.0, "float32", persistable=True, name="total")
        block = built.main.global_block()
        block.append_op("elementwise_add", {"X": total, "Y": layers.reduce_sum(x)}, {"Out": total})
        twice = total * 2.0
    built.start()
    assert [built.run({"x": np.array([1, 2], np.float32)}, twice)[0].item() for _ in range(2)] == [26.0, 32.0]
    assert built["total"].tolist() == [16.0]
