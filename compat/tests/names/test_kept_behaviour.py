"""What scripts relied on before functions were made from rows, and still can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import UsageError
from fleet_paddle import dygraph, imperative
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.taking import Taking


def test_an_embedding_of_1_8_takes_its_input_by_name() -> None:
    assert dygraph.Embedding([5, 2])(input=imperative.to_tensor([1, 2])).shape == [2, 2]


def test_products_of_short_numbers_do_not_overflow() -> None:
    big = imperative.to_tensor(np.array([2**20, 2**20], "int32"))
    assert imperative.prod(big).item() == 2**40
    assert imperative.prod(imperative.to_tensor([True, True])).dtype == torch.int64


@pytest.mark.parametrize("axis", [np.array(0), torch.tensor(0), np.int64(0), 0, [0]])
def test_a_dimension_may_be_given_as_anything_that_is_one_number(axis: Any) -> None:
    x = imperative.ones([1, 3])
    assert imperative.squeeze(x, axis).shape == [3]
    assert imperative.sum(x, axis).shape == [3]


def test_fractions_are_no_sizes() -> None:
    with pytest.raises(TypeError, match="whole number"):
        imperative.tile(imperative.ones([2]), 2.5)


def test_a_clip_of_whole_numbers_and_the_name_of_a_mean() -> None:
    with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
        ids, x = static.data("ids", [None, 2], "int64"), static.data("x", [None, 2])
        assert F.hardtanh(ids).dtype == "int64"
        assert imperative.mean(x).name == "mean_0.tmp_0"
        assert F.mse_loss(x, x).name.startswith("mean_")


def test_a_bad_reduction_is_said_before_shapes_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="reduction must be mean, sum or none, got 'all'"):
        F.mse_loss(imperative.ones([2]), imperative.ones([3]), "all")


def test_a_subclass_may_have_its_own_keyword_arguments_and_names() -> None:
    class Base(Taking):
        takes = "x=1"

        def take(self, given: dict[str, Any]) -> None:
            self.given = given

    class Counted(Base):
        takes = ("a", "b")  # type: ignore[assignment]

    assert Counted(2).given == {"x": 2}
