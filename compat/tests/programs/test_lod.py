"""`LoDTensor` is what everything fetched, fed or kept belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet_paddle.fluid import layers as L  # noqa: N812 - as scripts call it
from fleet_paddle.programs.variables.lod import LoDTensor
from fleet_programs.layers.io import fed
from program_support.programs import building


def test_all_that_a_script_gets_is_a_lod_tensor() -> None:
    with building() as built:
        total = L.reduce_sum(fed("x", [-1, 2]) * L.create_parameter([2], "float32", name="w"))
    built.start()
    feed = {"x": np.ones((3, 2), np.float32)}
    fetched: Any = static.Executor(static.CPUPlace()).run(built.main, feed, [total], built.scope, return_numpy=False)[0]
    kept: Any = built.scope.var("w").get_tensor()
    made = LoDTensor()
    for one in (fetched, kept, static.create_lod_tensor(np.ones((2, 1)), [[1, 1]], static.CPUPlace()), made):
        assert isinstance(one, LoDTensor)
        assert not isinstance(one, static.LoDTensorArray)
    assert not isinstance(np.ones(2), LoDTensor)
    assert not made._is_initialized()
    assert fetched._is_initialized()
    assert fetched._get_dims() == [1]
    assert fetched._get_float_element(0) == pytest.approx(float(np.array(kept).sum()) * 3)


def test_a_keyword_that_is_none_was_not_said() -> None:
    with building() as built:
        score, label = fed("score", [-1, 3]), fed("label", [-1, 1], "int64")
        shares = [L.accuracy(input=score, label=label, k=k) for k in (None, 1, 2)]
    feed = {"score": np.array([[1, 2, 3], [3, 2, 1]], np.float32), "label": np.array([[1], [0]])}
    assert [float(one.item()) for one in built.run(feed, *shares)] == [0.5, 0.5, 1.0]
