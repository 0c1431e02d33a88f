"""Initialisers of weights by their shape, and one for all, for tensors and for programs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import UsageError, UsageTypeError
from fleet_paddle import mode
from fleet_paddle.imperative import nn

paddle: Any = importlib.import_module("paddle")
initializer: Any = importlib.import_module("paddle.nn.initializer")


@pytest.fixture(autouse=True)
def layers_choose_again() -> Iterator[None]:
    with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
        yield
    initializer.set_global_initializer(None)


def of_tensors(first: Any, *shape: int) -> Any:
    with mode.guard():
        return paddle.create_parameter(list(shape), "float32", default_initializer=first).numpy()


def of_programs(first: Any, *shape: int) -> Any:
    mode.enable_static()
    made = static.layers.create_parameter(list(shape), "float32", default_initializer=first)
    with static.scope_guard(static.Scope()):
        static.Executor(static.CPUPlace()).run(static.default_startup_program())
        return static.global_scope().tensors[made.name].numpy().copy()


BOTH = pytest.mark.parametrize("made", [of_tensors, of_programs])


@BOTH
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3, 3)])
def test_orthogonal_rows_or_columns(made: Any, shape: tuple[int, ...]) -> None:
    found = made(initializer.Orthogonal(gain=2.0), *shape).reshape(shape[0], -1)
    square = found @ found.T if found.shape[0] <= found.shape[1] else found.T @ found
    np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-5)
    assert not np.array_equal(np.abs(found), np.abs(found[::-1])), "it is random"


def test_orthogonal_matrices_of_programs_are_torchs_of_the_same_numbers() -> None:
    mode.enable_static()
    static.default_startup_program().random_seed = 5
    with static.program_guard(static.Program(), static.Program()):
        startup = static.default_startup_program().global_block()
        initializer.Orthogonal()(startup.create_var("w", [4, 3], "float32", persistable=True), startup)
        names = ["w@NORMAL", "w"]
        drawn, found = static.Executor(static.CPUPlace()).run(static.default_startup_program(), fetch_list=names)
    q, r = torch.linalg.qr(torch.from_numpy(drawn))
    np.testing.assert_allclose(found, (q * r.diagonal().sign()).numpy(), rtol=1e-5, atol=1e-6)


@BOTH
@pytest.mark.parametrize(("shape", "groups"), [((4, 3, 3), 1), ((4, 2, 3, 3), 2), ((2, 3, 3, 1, 5), 1)])
def test_dirac_filters_are_torchs(made: Any, shape: tuple[int, ...], groups: int) -> None:
    wanted = torch.nn.init.dirac_(torch.empty(shape), groups)
    np.testing.assert_array_equal(made(initializer.Dirac(groups), *shape), wanted.numpy())


def test_bilinear_filters_are_the_same_for_tensors() -> None:
    found = of_tensors(initializer.Bilinear(), 2, 1, 4, 4)
    np.testing.assert_array_equal(found, of_programs(initializer.Bilinear(), 2, 1, 4, 4))
    line = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(found[1, 0], np.outer(line, line))


def test_one_initializer_for_all_but_those_that_have_their_own() -> None:
    initializer.set_global_initializer(initializer.Constant(3.0), initializer.Constant(4.0))
    with mode.guard():
        line = nn.Linear(2, 2)
        own = nn.Linear(2, 2, weight_attr=initializer.Constant(7.0))
        norm = nn.BatchNorm2D(2)
        assert float(line.weight.mean()) == float(norm.weight.mean()) == 3.0
        assert (float(line.bias.mean()), float(own.weight.mean()), float(own.bias.mean())) == (4.0, 7.0, 4.0)
        assert float(norm._mean.sum()) == 0.0, "what is not trained begins as ever"
    mode.enable_static()
    static.layers.batch_norm(static.layers.fc(static.data("x", [None, 2]), 2))
    with static.scope_guard(static.Scope()):
        static.Executor(static.CPUPlace()).run(static.default_startup_program())
        found = {name: float(one.mean()) for name, one in static.global_scope().tensors.items()}
    assert sorted(found.values()) == [0.0, 1.0, 3.0, 3.0, 4.0, 4.0]
    initializer.set_global_initializer(None)
    with mode.guard():
        assert float(nn.Linear(2, 2).bias.sum()) == 0.0


def test_mistakes_are_named() -> None:
    for made in (of_tensors, of_programs):
        with pytest.raises(UsageError, match=r"Orthogonal fills parameters of 2 or more dimensions, got shape \[3\]"):
            made(initializer.Orthogonal(), 3)
        with pytest.raises(UsageError, match=r"Dirac fills parameters of 3, 4 or 5 dimensions, got shape \[3, 3\]"):
            made(initializer.Dirac(), 3, 3)
        with pytest.raises(UsageError, match="Dirac: groups must divide 3 filters, got 2"):
            made(initializer.Dirac(2), 3, 3, 3)
    with pytest.raises(UsageError, match="groups must be a whole number >= 1, got 0"):
        initializer.Dirac(0)
    with pytest.raises(UsageTypeError, match="the initializer of every bias must be one of static.initializer, got 0"):
        initializer.set_global_initializer(None, 0)
