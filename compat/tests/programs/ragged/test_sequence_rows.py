"""Layers that change the rows of ragged batches against loops over them, empty rows among them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_paddle.programs import layers
from fleet_programs.layers.io import fed
from fleet_programs.layers.sequence import sequence_pool
from fleet_programs.program.program import Program
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal

OFFSETS = np.array([0, 2, 2, 5, 6])
X = (normal(6, 4), OFFSETS)
IDS = (np.array([[3], [1], [3], [0], [2], [1]]), OFFSETS)


def cut(values: Any) -> list[Any]:
    return [values[begin:end] for begin, end in pairwise(OFFSETS)]


@pytest.mark.parametrize(("width", "ends"), [(2, [0, 4, 4, 10, 12]), (1, [0, 8, 8, 20, 24])])
def test_sequence_reshape(width: int, ends: list[int]) -> None:
    built = check(lambda x: layers.sequence_reshape(x, width), {"x": X}, lambda x: x.reshape(-1, width))
    assert built.run({"x": X}, "sequence_reshape_0.tmp_0@LOD")[0].tolist() == ends
    assert Program.parse_from_string(str(built.main)).to_json() == built.main.to_json()


def test_rows_that_cannot_be_reshaped() -> None:
    with building() as built:
        out = layers.sequence_reshape(feed_variable("x", X), 8)
    with pytest.raises(UsageError, match=r"every row of 'x' must have a multiple of 8 numbers, got rows of \[8, 0, 12"):
        built.run({"x": X}, out)


def test_sequence_expand_as() -> None:
    check(
        layers.sequence_expand_as,
        {"x": normal(4, 2), "y": X},
        lambda x, _: x.repeat_interleave(torch.tensor([2, 0, 3, 1]), 0),
    )


def test_sequence_slice() -> None:
    begin, size = np.array([[1], [0], [0], [0]]), np.array([1, 0, 2, 1])
    feeds = {"input": X, "offset": begin, "length": size}

    def reference(x: torch.Tensor, begin: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        return torch.cat([row[int(b) : int(b) + int(n)] for row, b, n in zip(cut(x), begin, size, strict=True)])

    built = check(layers.sequence_slice, feeds, reference)
    assert built.run(feeds, "sequence_slice_0.tmp_0@LOD")[0].tolist() == [0, 1, 1, 3, 4]
    with pytest.raises(UsageError, match="row 1 of 'input' has 0 values, and 1 from 0 on are asked for"):
        built.run({**feeds, "length": np.array([1, 1, 1, 1])}, "sequence_slice_0.tmp_0")


def test_sequence_erase_and_enumerate() -> None:
    with building() as built:
        ids = feed_variable("ids", IDS)
        left = layers.sequence_erase(ids, [3, 0])
        windows = layers.sequence_enumerate(ids, 2, pad_value=9)
    found, ends, pairs = built.run({"ids": IDS}, left, left.lod, windows)
    assert (found.tolist(), ends.tolist()) == ([[1], [2], [1]], [0, 1, 1, 2, 3])
    assert pairs.tolist() == [[3, 1], [1, 9], [3, 0], [0, 2], [2, 9], [1, 9]]
    empty = (np.zeros((0, 1), np.int64), np.array([0, 0]))
    assert [one.shape for one in built.run({"ids": empty}, left, windows)] == [(0, 1), (0, 2)]


def test_sequence_scatter_adds() -> None:
    def reference(x: torch.Tensor, ids: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        for row, (places, values) in enumerate(zip(cut(ids), cut(updates), strict=True)):
            for place, value in zip(places, values, strict=True):
                out[row, int(place)] = out[row, int(place)] + value[0]
        return out

    feeds = {"input": normal(4, 5), "index": IDS, "updates": normal(6, 1)}
    check(layers.sequence_scatter, feeds, reference)


def test_lod_reset() -> None:
    ends = np.array([0, 1, 6])
    feeds = {"x": normal(6, 2), "y": ends}
    for build in (lambda x, y: layers.lod_reset(x, y), lambda x, _: layers.lod_reset(x, target_lod=[0, 1, 6])):
        check(
            lambda x, y, build=build: sequence_pool(build(x, y), "sum"),
            feeds,
            lambda x, _: torch.stack([x[:1].sum(0), x[1:].sum(0)]),
        )
    check(
        lambda x, y: sequence_pool(layers.lod_reset(x, y), "sum"),
        {"x": normal(6, 2), "y": X},
        lambda x, _: torch.stack([row.sum(0) for row in cut(x)]),
    )


def test_bad_input() -> None:
    with building() as built:
        x = feed_variable("x", X)
        with pytest.raises(UsageError, match="give y or target_lod, and not both"):
            layers.lod_reset(x)
        with pytest.raises(UsageError, match=r"target_lod must begin with 0 and ascend, as offsets do, got \[4, 2\]"):
            layers.lod_reset(x, target_lod=[4, 2])
        with pytest.raises(UsageError, match="X 'x' must be int"):
            layers.sequence_enumerate(x, 2)
        out = layers.lod_reset(x, fed("ends", [-1], "int64"))
    with pytest.raises(UsageError, match=r"offsets must ascend from 0 to 6, the values of 'x', got \[0, 5\]"):
        built.run({"x": X, "ends": np.array([0, 5])}, out)
