"""What arguments layers made from rows take: nothing that is given is ignored, and what does not fit is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fleet.errors import UsageTypeError
from fleet_programs import layers
from fleet_programs.layers.io import fed
from fleet_programs.program.variable import Variable
from program_support.programs import building

WRONG: list[tuple[Callable[[Variable], Any], str]] = [
    (lambda x: layers.topk(x, None), "k must be a whole number, got None"),
    (lambda x: layers.clip(x, None, None), "min must be a number, got None"),
    (lambda x: layers.leaky_relu(x, None), "alpha must be a number, got None"),  # type: ignore[arg-type]
    (lambda x: layers.squeeze(x, 0.5), "axes must be a whole number, or a list of them, got 0.5"),
    (lambda x: layers.argsort(x, axis="a"), "axis must be a whole number, got 'a'"),
    (lambda x: layers.softmax(x, axis=0.5), "axis must be a whole number, got 0.5"),
    (lambda x: layers.cumsum(x, exclusive="no"), "exclusive must be True or False, got 'no'"),
    (lambda x: layers.concat(3), "must be Variables in a list, got int"),  # type: ignore[arg-type]  # noqa: ARG005
    (lambda x: layers.fill_constant([2], "float32", None), "value must be given, got None"),  # noqa: ARG005
    (lambda x: layers.relu(x, 7), "name must be a text, got int"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("build", "words"), WRONG)
def test_what_does_not_fit_is_named_with_the_line(build: Callable[[Variable], Any], words: str) -> None:
    with building(), pytest.raises(UsageTypeError) as refusal:
        build(fed("x", [-1, 4]))
    assert str(refusal.value).startswith("test_row_arguments.py:")
    assert words in str(refusal.value)


def test_numbers_of_numpy_are_numbers() -> None:
    with building():
        x = fed("x", [-1, 4])
        assert layers.reduce_sum(x, np.int64(1)).shape == (-1,)
        assert layers.reduce_sum(x, np.array([1])).shape == (-1,)
        assert layers.unsqueeze(x, np.array(1)).shape == (-1, 1, 4)


def test_results_are_called_what_scripts_fetch() -> None:
    with building():
        x = fed("x", [-1, 4])
        assert layers.layer_norm(x).name == "layer_norm_0.tmp_2"
        assert layers.batch_norm(x).name == "batch_norm_0.tmp_2"
        assert layers.uniform_random([2]).name == "uniform_random_0.tmp_0"
        assert layers.gaussian_random([2]).name == "gaussian_random_0.tmp_0"
        assert layers.zeros_like(x).name == "zeros_like_0.tmp_0"
        assert layers.ones_like(x).name == "ones_like_0.tmp_0"


def test_a_text_is_no_switch() -> None:
    with building(), pytest.raises(UsageTypeError, match="keep_dim must be True or False, got 'False'"):
        layers.reduce_sum(fed("x", [-1, 4]), keep_dim="False")  # type: ignore[arg-type]
