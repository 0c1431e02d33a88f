"""Layers over ragged batches against loops over their rows, empty rows among them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_paddle.programs import layers
from fleet_programs.layers.io import fed
from fleet_programs.layers.table import fill_constant
from fleet_programs.program.variable import Variable
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal

OFFSETS = np.array([0, 2, 2, 5, 6])
X = (normal(6, 3), OFFSETS)
OTHER = (normal(5, 3), np.array([0, 0, 1, 4, 5]))


def rows(values: torch.Tensor, offsets: Any = OFFSETS) -> list[torch.Tensor]:
    return [values[begin:end] for begin, end in pairwise(offsets)]


def test_sequence_softmax() -> None:
    for shape in ((6, 1), (6,)):
        check(
            layers.sequence_softmax,
            {"input": (normal(*shape), OFFSETS)},
            lambda x: torch.cat([row.softmax(0) for row in rows(x)]),
        )


def test_sequence_reverse_keeps_the_rows() -> None:
    built = check(layers.sequence_reverse, {"x": X}, lambda x: torch.cat([row.flip(0) for row in rows(x)]))
    assert built.main.global_block().var("sequence_reverse_0.tmp_0").lod == "x@LOD"


@pytest.mark.parametrize(("size", "start"), [(3, None), (2, 0), (4, -3)])
def test_sequence_conv(size: int, start: int | None) -> None:
    begin = -(size // 2) if start is None else start

    def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        wide = [torch.cat([x.new_zeros(9, 3), row, x.new_zeros(9, 3)]) for row in rows(x)]
        windows = [one[9 + place + begin :][:size].reshape(-1) for one in wide for place in range(len(one) - 18)]
        return torch.relu(torch.stack(windows) @ weight + bias)

    check(lambda x: layers.sequence_conv(x, 4, size, padding_start=start, act="relu"), {"x": X}, reference)


def test_sequence_expand_repeats_rows_of_a_matrix() -> None:
    built = check(
        layers.sequence_expand,
        {"x": normal(4, 2), "y": X},
        lambda x, _: x.repeat_interleave(torch.tensor([2, 0, 3, 1]), 0),
    )
    assert built.main.global_block().var("sequence_expand_0.tmp_0").lod == "y@LOD"


def test_sequence_expand_repeats_ragged_rows() -> None:
    sizes, own = [2, 0, 3, 1], OTHER[1]
    built = check(
        layers.sequence_expand,
        {"x": OTHER, "y": X},
        lambda x, _: torch.cat([row for row, size in zip(rows(x, own), sizes, strict=True) for _ in range(size)]),
    )
    out = built.main.global_block().var("sequence_expand_0.tmp_0")
    feeds = {"x": OTHER, "y": X, "seed_of_check": normal(10, 3)}
    assert built.run(feeds, out.lod)[0].tolist() == [0, 0, 0, 3, 6, 9, 10]


def test_sequence_concat_joins_row_by_row_the_same_variable_twice_too() -> None:
    def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pairs = zip(rows(x), rows(y, OTHER[1]), strict=True)
        return torch.cat([torch.cat([one, other, one]) for one, other in pairs])

    built = check(lambda x, y: layers.sequence_concat([x, y, x]), {"x": X, "y": OTHER}, reference)
    out = built.main.global_block().var("sequence_concat_0.tmp_0")
    feeds = {"x": X, "y": OTHER}
    assert built.run(feeds, out.lod)[0].tolist() == [0, 4, 5, 14, 17]


def padded(x: Variable) -> Variable:
    return layers.sequence_pad(x, fill_constant([1], "float64", -1.0), maxlen=4)[0]


def test_sequence_pad_and_unpad_undo_each_other() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.cat([row, x.new_full((4 - len(row), 3), -1.0)]) for row in rows(x)])

    check(padded, {"x": X}, reference)

    def there_and_back(x: Variable) -> Variable:
        whole, length = layers.sequence_pad(x, fill_constant([1], "float64", 0.0))
        return layers.sequence_unpad(whole, length)

    built = check(there_and_back, {"x": X}, lambda x: x * 1)
    assert built.run({"x": X}, "sequence_unpad_0.tmp_0@LOD", "sequence_pad_0.tmp_1")[1].tolist() == [2, 0, 3, 1]


def test_padded_numbers_become_a_column() -> None:
    with building() as built:
        cut = layers.sequence_unpad(fed("whole", [-1, 3], "int64"), fed("sizes", [-1], "int64"))
        assert cut.shape == (-1, 1)
    whole = np.array([[1, 2, 0], [3, 0, 0]])
    assert built.run({"whole": whole, "sizes": np.array([2, 1])}, cut)[0].tolist() == [[1], [2], [3]]


def test_sequence_mask() -> None:
    with building() as built:
        sizes = fed("sizes", [-1], "int64")
        longest, fixed = layers.sequence_mask(sizes), layers.sequence_mask(sizes, 4, "float32")
    by_longest, by_fixed = built.run({"sizes": np.array([2, 0, 3])}, longest, fixed)
    assert by_longest.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert (by_fixed.dtype, by_fixed.tolist()[0]) == (np.float32, [1, 1, 0, 0])


def test_bad_input() -> None:
    with building() as built:
        x = feed_variable("x", X)
        with pytest.raises(UsageError, match="sequence_softmax: X 'x' must have one number for each value"):
            layers.sequence_softmax(x)
        with pytest.raises(UsageError, match="filter_stride must be 1, got 2"):
            layers.sequence_conv(x, 2, filter_stride=2)
        with pytest.raises(UsageError, match="X must be alike"):
            layers.sequence_concat([x, feed_variable("y", (normal(6, 2), OFFSETS))])
        out = layers.sequence_pad(x, fill_constant([1], "float64", 0.0), maxlen=2)[0]
        cut = layers.sequence_unpad(padded(x), fed("sizes", [-1], "int64"))
    with pytest.raises(UsageError, match="a row of 'x' has 3 values, and maxlen is 2"):
        built.run({"x": X}, out)
    with pytest.raises(UsageError, match=r"lengths must be from 0 to 4, .* got \[9, 1, 1, 1\]"):
        built.run({"x": X, "sizes": np.array([9, 1, 1, 1])}, cut)
