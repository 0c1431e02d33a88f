"""Layers over two variables, or over places in one, against torch."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_paddle.programs import layers
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal

OFFSETS = np.array([0, 2, 2, 5, 6])


def test_bilinear_tensor_product() -> None:
    check(
        lambda x, y: layers.bilinear_tensor_product(x, y, 5, act="tanh"),
        {"x": normal(4, 3), "y": normal(4, 2)},
        lambda x, y, weight, bias: torch.tanh(torch.einsum("ni,kij,nj->nk", x, weight, y) + bias),
    )


def test_scatter_nd_and_scatter_nd_add() -> None:
    index = np.array([[1, 0], [2, 2], [1, 0]])

    def reference(ref: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        out = ref.clone()
        for place, update in zip(index.tolist(), updates, strict=True):
            out = out.index_put((torch.tensor(place[0]), torch.tensor(place[1])), update, accumulate=True)
        return out

    feeds = {"ref": normal(3, 4, 2), "index": index, "updates": normal(3, 2)}
    check(layers.scatter_nd_add, feeds, reference)
    check(
        lambda index, updates: layers.scatter_nd(index, updates, [3, 4, 2]),
        {"index": index, "updates": normal(3, 2)},
        lambda index, updates: reference(torch.zeros(3, 4, 2, dtype=torch.float64), index, updates),
    )


def test_pad_constant_like_and_crop_tensor() -> None:
    check(
        lambda x, y: layers.pad_constant_like(x, y, 2.0),
        {"x": normal(3, 4), "y": normal(2, 3)},
        lambda _, y: torch.nn.functional.pad(y, (0, 1, 0, 1), value=2.0),
    )
    check(lambda x: layers.crop_tensor(x, [-1, 2], [0, 1]), {"x": normal(3, 4)}, lambda x: x[:, 1:3])


def test_row_conv_looks_ahead_in_its_row() -> None:
    def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rows = [(begin, end) for begin, end in pairwise(OFFSETS) if begin < end]
        return torch.stack(
            [
                sum((x[place + k] * weight[k] for k in range(3) if place + k < end), torch.zeros(3))
                for begin, end in rows
                for place in range(begin, end)
            ]
        )

    check(lambda x: layers.row_conv(x, 2), {"x": (normal(6, 3), OFFSETS)}, reference)


TAGS = (np.array([1, 7, 7, 2, 3, 7]), OFFSETS)


def test_filter_by_instag() -> None:
    feeds = {"ins": normal(4, 3), "tags": TAGS, "wanted": np.array([2, 1])}
    check(
        lambda ins, tags, wanted: layers.filter_by_instag(ins, tags, wanted, False)[0],
        feeds,
        lambda ins, *_: ins[[0, 2]],
    )
    check(
        lambda ins, tags, wanted: layers.filter_by_instag(ins, tags, wanted, False, 9)[0],
        {**feeds, "wanted": np.array([0])},
        lambda ins, *_: torch.full_like(ins[:1], 9.0) + ins.sum() * 0,
    )


def test_filter_by_instag_of_ragged_rows() -> None:
    values = (normal(5, 2), np.array([0, 1, 3, 3, 5]))
    with building() as built:
        ins, tags = feed_variable("ins", values), feed_variable("tags", TAGS)
        out, weights = layers.filter_by_instag(ins, tags, fed("wanted", [-1], "int64"), True)
    found = built.run({"ins": values, "tags": TAGS, "wanted": np.array([7])}, out, out.lod, weights)
    np.testing.assert_array_equal(found[0], values[0][[0, 3, 4]])
    assert found[1].tolist() == [0, 1, 1, 3]
    assert found[2].tolist() == [[1.0]] * 3
    none = built.run({"ins": values, "tags": TAGS, "wanted": np.array([0])}, out, out.lod, weights)
    assert (none[0].shape, none[1].tolist(), none[2].tolist()) == ((1, 2), [0, 1], [[0.0]])


def test_bad_arguments() -> None:
    with building():
        x, index = fed("x", [-1, 3]), fed("index", [-1, 3], "int64")
        with pytest.raises(UsageError, match="do not fit Index 'index'"):
            layers.scatter_nd_add(x, index, x)
        with pytest.raises(UsageError, match=r"Y 'y' of shape \[4, 4\] is larger than X 'z'"):
            layers.pad_constant_like(fed("z", [4, 3]), fed("y", [4, 4]))
