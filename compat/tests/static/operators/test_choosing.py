"""Layers that choose, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_programs import layers
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, normal

X = normal(4, 6, 5)


def test_where() -> None:
    chosen = normal(4, 3) > 0
    check(
        lambda x, y, condition: layers.where(condition, x, y),
        {"x": normal(4, 3), "y": normal(4, 3), "condition": chosen},
        lambda x, y, condition: torch.where(condition, x, y),
    )
    with building() as built:
        out = layers.where(fed("c", [-1, 3], "bool"))
        with pytest.raises(UsageError, match="give both x and y, or none of them"):
            layers.where(fed("d", [-1, 3], "bool"), fed("x", [-1, 3]))
    np.testing.assert_array_equal(built.run({"c": chosen}, out)[0], np.argwhere(chosen))


def test_multiplex() -> None:
    check(
        lambda x, y, index: layers.multiplex([x, y], index),
        {"x": normal(3, 2), "y": normal(3, 2), "index": np.array([[1], [0], [1]], np.int32)},
        lambda x, y, _: torch.stack([y[0], x[1], y[2]]),
    )


@pytest.mark.parametrize(
    ("axes", "starts", "ends", "strides", "key"),
    [
        ([1], [1], [6], [2], np.s_[:, 1:6:2]),
        ([1, 2], [-1, 0], [-7, 5], [-2, 3], np.s_[:, -1:-7:-2, 0:5:3]),
        ([0], [0], [9], [3], np.s_[0:9:3]),
    ],
)
def test_strided_slice(axes: Any, starts: Any, ends: Any, strides: Any, key: Any) -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1)[torch.from_numpy(np.arange(X.size).reshape(X.shape)[key].copy())]

    check(lambda x: layers.strided_slice(x, axes, starts, ends, strides), {"x": X}, reference)


def test_expand_as() -> None:
    check(
        layers.expand_as,
        {"x": normal(2, 3), "target_tensor": normal(4, 3)},
        lambda x, _: x.repeat(2, 1),
    )
    with building(), pytest.raises(UsageError, match=r"X 'x' of shape \[2, 3\] does not repeat to \[4, 4\]"):
        layers.expand_as(fed("x", [2, 3]), fed("y", [4, 4]))


def test_unique_rank_size_is_empty_shard_index() -> None:
    with building() as built:
        x = fed("x", [-1], "int64")
        outs = [
            *layers.unique_with_counts(x),
            layers.unique(x, "int64")[1],
            layers.rank(x),
            layers.size(x),
            layers.is_empty(x),
            layers.shard_index(x, 10, 2, 1),
        ]
    found = [one.tolist() for one in built.run({"x": np.array([5, 3, 5, 9])}, *outs)]
    assert found == [[5, 3, 9], [0, 1, 0, 2], [2, 1, 1], [0, 1, 0, 2], [1], [4], [False], [0, -1, 0, 4]]
    assert built.run({"x": np.array([], np.int64)}, outs[6])[0].tolist() == [True]
