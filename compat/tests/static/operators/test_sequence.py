"""Pooling of ragged batches against loops over their rows, empty rows among them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_programs import layers
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal

OFFSETS = np.array([0, 2, 2, 5, 6])
X = (normal(6, 3), OFFSETS)

Reference = Callable[[torch.Tensor], torch.Tensor]


def rows(values: torch.Tensor, offsets: Any = OFFSETS) -> list[torch.Tensor]:
    return [values[begin:end] for begin, end in pairwise(offsets)]


def of_rows(function: Callable[[torch.Tensor], torch.Tensor], empty: float = 0.0) -> Reference:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([function(row) if len(row) else x.new_full(x.shape[1:], empty) for row in rows(x)])

    return reference


POOLS: dict[str, Reference] = {
    "sum": of_rows(lambda row: row.sum(0)),
    "average": of_rows(lambda row: row.mean(0)),
    "sqrt": of_rows(lambda row: row.sum(0) / len(row) ** 0.5),
    "max": of_rows(lambda row: row.amax(0)),
    "min": of_rows(lambda row: row.amin(0)),
    "first": of_rows(lambda row: row[0]),
    "last": of_rows(lambda row: row[-1]),
}


@pytest.mark.parametrize("kind", POOLS)
def test_sequence_pool(kind: str) -> None:
    check(lambda x: layers.sequence_pool(x, kind), {"x": X}, POOLS[kind])


def test_sequence_pool_of_more_dimensions_and_another_value_for_empty_rows() -> None:
    whole = (normal(6, 2, 2), OFFSETS)
    check(lambda x: layers.sequence_pool(x, "MAX", pad_value=7.0), {"x": whole}, of_rows(lambda row: row.amax(0), 7.0))
    check(layers.sequence_last_step, {"input": whole}, POOLS["last"])
    check(layers.sequence_first_step, {"input": whole}, POOLS["first"])


@pytest.mark.parametrize("kind", POOLS)
def test_a_batch_of_nothing_but_empty_rows(kind: str) -> None:
    check(
        lambda x: layers.sequence_pool(x, kind),
        {"x": (normal(0, 3), np.array([0, 0, 0]))},
        lambda x: x.new_zeros(2, 3) + x.sum(),
    )


def test_the_gradient_of_pooling_does_not_keep_its_input() -> None:
    from fleet_programs.definition.registry import definition

    assert "X" not in definition("sequence_pool_grad").slots


def test_bad_input() -> None:
    with building():
        x, flat = feed_variable("x", X), fed("flat", [-1, 3], "float64")
        with pytest.raises(UsageError, match=r"input 'flat' must be ragged; declare it with data\(..., lod_level=1\)"):
            layers.sequence_pool(flat, "sum")
        with pytest.raises(UsageError, match="pool_type must be one of sum, .*, got 'median'"):
            layers.sequence_pool(x, "median")
