"""A result of one value is an array of shape [1], and a number where a script wants one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet_programs import layers
from fleet_programs.executor.single import Single, as_single


def test_a_fetched_loss_is_a_number_too() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 2])
        loss, rows = layers.mean(x), layers.reduce_sum(x, 1, keep_dim=True)
    values: list[Any] = static.Executor(static.CPUPlace()).run(main, {"x": np.full((1, 2), 1.5, "f")}, [loss, rows, x])
    assert [value.shape for value in values] == [(1,), (1, 1), (1, 2)]
    assert (float(values[0]), int(values[0]), "%.1f" % values[0], f"{values[0]:.2f}") == (1.5, 1, "1.5", "1.50")  # noqa: UP031
    assert (float(values[1]), str(values[1])) == (3.0, "[[3.]]")
    assert type(values[2]) is np.ndarray


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (lambda x: x + 1, Single),
        (lambda x: x * np.ones(3), np.ndarray),
        (lambda x: x[0], np.float64),
        (lambda x: x.sum(), np.float64),
        (lambda x: np.concatenate([x, x]), np.ndarray),
        (lambda x: np.array([x, x]), np.ndarray),
        (lambda x: pickle.loads(pickle.dumps(x)), np.ndarray),
    ],
)
def test_what_is_computed_with_it_is_numpys(made: Any, kind: type) -> None:
    assert type(made(as_single(np.array([2.0])))) is kind


def test_rows_of_a_column_are_numbers_and_the_column_is_none() -> None:
    column = as_single(np.array([[1.5], [2.5]]))
    assert ["%.1f" % row for row in column] == ["1.5", "2.5"]  # noqa: UP031
    assert (float(column[1]), int(column[0]), f"{column[0]:.2f}") == (2.5, 1, "1.50")
    with pytest.raises(TypeError, match="converted to Python scalars"):
        float(column)
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{column:.2f}"
    assert type(as_single(np.ones((2, 3)))) is np.ndarray
