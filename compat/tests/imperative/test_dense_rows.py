"""Sparse gradients become dense ones in memory that is used again, and never under somebody's hands."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fleet_paddle.imperative import nn, optimizer, to_tensor
from fleet_paddle.imperative.optimizer.dense_rows import DenseRows

WEIGHT = torch.zeros(6, 2)


def sparse(rows: list[int], value: float = 1.0) -> torch.Tensor:
    values = torch.full((len(rows), 2), value)
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, (6, 2), check_invariants=True)


def test_rows_of_the_last_step_are_zero_again() -> None:
    dense = DenseRows()
    place = dense.of(WEIGHT, sparse([0, 3, 3])).data_ptr()
    again = dense.of(WEIGHT, sparse([1, 2], 5.0))
    assert again.data_ptr() == place
    assert again[:, 0].tolist() == [0, 5, 5, 0, 0, 0]


def test_what_was_written_in_between_is_gone() -> None:
    dense = DenseRows()
    dense.of(WEIGHT, sparse([0])).add_(1)
    assert torch.equal(dense.of(WEIGHT, sparse([4])), sparse([4]).to_dense())


def test_a_gradient_that_somebody_holds_stays() -> None:
    dense = DenseRows()
    held = dense.of(WEIGHT, sparse([0]))
    other = dense.of(WEIGHT, sparse([1]))
    assert held[:, 0].tolist() == [1, 0, 0, 0, 0, 0]
    assert other[:, 0].tolist() == [0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("clear", [True, False])
def test_training_is_that_of_a_dense_table(clear: bool) -> None:
    found = []
    for is_sparse in (True, False):
        torch.manual_seed(0)
        table: Any = nn.Embedding(6, 2, sparse=is_sparse)
        adam = optimizer.Adam(learning_rate=0.1, parameters=table.parameters())
        for step in range(5):
            table(to_tensor([step, (2 * step) % 6, step])).square().sum().backward()
            adam.step()
            if clear or step == 2:
                adam.clear_grad()
        found.append(table.weight.detach())
    torch.testing.assert_close(*found)
