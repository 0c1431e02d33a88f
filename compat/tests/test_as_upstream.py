"""What scripts give that stopped them, or got another value than PaddlePaddle gives."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.api import Fleet
from fleet.errors import UsageError
from fleet.roles import Role, UserDefinedRoleMaker
from fleet_paddle import imperative, mode, optimizer
from fleet_paddle.imperative import native_ops, nn, state
from fleet_paddle.imperative.nn import functional
from fleet_paddle.jobs import older_fleet
from fleet_paddle.programs.layers import table
from fleet_paddle.vision import datasets
from fleet_programs import layers
from fleet_programs.executor.lod import create_lod_tensor

ROWS = np.arange(8, dtype="float32").reshape(4, 2)


@pytest.fixture
def programs() -> Iterator[static.Executor]:
    with (
        static.scope_guard(static.Scope()),
        static.program_guard(static.Program(), static.Program()),
        static.unique_name.guard(),
    ):
        yield static.Executor()


def test_labels_of_a_loss_may_have_a_last_dimension_of_1() -> None:
    scores = functional.log_softmax(imperative.to_tensor(ROWS))
    labels = np.array([0, 1, 1, 0])
    flat = functional.nll_loss(scores, imperative.to_tensor(labels))
    assert functional.nll_loss(scores, imperative.to_tensor(labels[:, None])).item() == flat.item()
    assert nn.NLLLoss()(scores, imperative.to_tensor(labels[:, None])).item() == flat.item()


def test_pixels_of_digits_are_floats() -> None:
    digits = datasets.MNIST(mode="test")
    assert digits.images.dtype == np.float32
    assert digits.images[0].shape == (784,)
    assert (digits.images[0].reshape(28, 28) == np.asarray(digits[0][0]).reshape(28, 28)).all()


def test_whole_numbers_may_be_said_to_be_trained() -> None:
    assert not imperative.to_tensor([1, 2], stop_gradient=False).stop_gradient
    assert imperative.to_tensor([1, 2]).stop_gradient


def test_betas_may_be_tensors() -> None:
    values = []
    for first, second in ((0.9, 0.99), (imperative.to_tensor([0.9]), imperative.to_tensor([0.99]))):
        layer = nn.Linear(2, 1, weight_attr=nn.initializer.Constant(1.0))
        steps = optimizer.Adamax(0.1, beta1=first, beta2=second, parameters=layer.parameters())
        layer(imperative.ones([1, 2])).mean().backward()
        steps.step()
        values.append(layer.weight.numpy())
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


def test_a_vector_feeds_a_column(programs: static.Executor) -> None:
    twice = layers.scale(static.data("x", [-1, 1]), 2.0)
    (made,) = programs.run(feed={"x": np.ones(4, "float32")}, fetch_list=[twice])
    assert made.shape == (4, 1)


def test_an_array_feeds_a_ragged_variable(programs: static.Executor) -> None:
    twice = layers.scale(static.data("x", [-1, 2], lod_level=1), 2.0)
    (made,) = programs.run(feed={"x": ROWS}, fetch_list=[twice], return_numpy=False)
    np.testing.assert_array_equal(np.array(made), ROWS * 2)


def test_what_is_repeated_stays_ragged(programs: static.Executor) -> None:
    wide = layers.expand(static.data("x", [-1, 2], lod_level=1), [1, 2])
    again = table.sequence_reshape(wide, 2)
    feed = {"x": create_lod_tensor(ROWS, [[1, 3]])}
    (made,) = programs.run(feed=feed, fetch_list=[again], return_numpy=False)
    assert made.lod() == [[0, 2, 8]]
    np.testing.assert_array_equal(np.array(made)[:2], [ROWS[0], ROWS[0]])


def test_a_tensor_becomes_what_is_assigned_to_it() -> None:
    output = imperative.zeros([3, 3])
    assert imperative.assign(ROWS, output) is output
    np.testing.assert_array_equal(output.numpy(), ROWS)


def test_settings_of_datasets_as_2_0_spells_them() -> None:
    data = static.InMemoryDataset()
    data._set_queue_num(2)
    data._set_parse_ins_id(True)
    data._set_merge_by_lineid(3)
    data._set_fleet_send_batch_size(5)
    data._set_fea_eval(7, True)
    assert (data._num_queues, data._merge_size, data._send_size, data._num_candidates) == (2, 3, 5, 7)


def test_operators_that_libraries_call_on_tensors() -> None:
    rows, places = imperative.to_tensor(ROWS, stop_gradient=False), imperative.to_tensor([0, 0, 2, 2])
    wanted = {"SUM": ROWS[:2].sum(0), "MEAN": ROWS[:2].mean(0), "MAX": ROWS[1], "MIN": ROWS[0]}
    for kind, first in wanted.items():
        made, counts = native_ops.segment_pool(rows, places, "pooltype", kind)
        np.testing.assert_allclose(made.numpy()[:2], [first, [0, 0]])
        assert counts.tolist() == [2, 0, 2]
        made.sum().backward()
    with pytest.raises(UsageError, match="pooltype must be SUM, MEAN, MAX or MIN, got 'ALL'"):
        native_ops.segment_pool(rows, places, "pooltype", "ALL")
    zeros, ones = imperative.zeros([3], "int64"), imperative.ones([4], "int64")
    assert native_ops.scatter(zeros, places, ones, "overwrite", False).tolist() == [2, 0, 2]
    values, where, counts = native_ops.unique_with_counts(imperative.to_tensor([5, 3, 5]), "dtype", "int64")
    assert (values.tolist(), where.tolist(), counts.tolist()) == ([5, 3], [0, 1, 0], [2, 1])


def test_a_librarys_layer_knows_what_is_meant_before_anybody_said_it(programs: static.Executor) -> None:
    with mode.kept():
        state.chosen.programs = None
        assert mode.in_dygraph_mode()
        static.data("x", [3])
        assert not mode.in_dygraph_mode()
        mode.disable_static()
        assert mode.in_dygraph_mode()


def test_choices_of_tensors_run_one_function() -> None:
    names: Any = importlib.import_module("paddle.static.nn")
    ones, zeros = (lambda: imperative.ones([1])), (lambda: imperative.zeros([1]))
    assert names.cond(imperative.to_tensor(True), ones, zeros).item() == 1.0
    assert names.case([(imperative.to_tensor(False), ones)], zeros).item() == 0.0


def test_a_server_may_ask_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Fleet()
    shared.init(
        UserDefinedRoleMaker(
            current_id=1, role=Role.SERVER, worker_num=2, server_endpoints=["127.0.0.1:1", "127.0.0.1:2"]
        )
    )
    monkeypatch.setattr(older_fleet, "shared", shared)
    older: Any = older_fleet.OlderFleet()
    assert older.split_files(["a", "b", "c"]) == ["c"]
