"""Adam on sparse embeddings: rows that ever had a gradient are all that a step looks at, and the result is Adam's."""

from __future__ import annotations

import copy
import io
from importlib import import_module
from typing import Any

import pytest
import torch

from fleet_paddle.imperative.optimizer import touched

paddle: Any = import_module("paddle")


ROWS = 400


def _embedding(values: torch.Tensor) -> Any:
    made = paddle.nn.Embedding(ROWS, 3, sparse=True)
    made.weight.set_value(values)
    return made


def _gradient_of(ids: list[int], step: int) -> torch.Tensor:
    made = torch.zeros(ROWS, 3)
    made.index_add_(0, torch.tensor(ids), torch.full((len(ids), 3), 0.5 + step))
    return made


def _steps(layer: Any, adam: Any, batches: list[list[int]], start: int = 0) -> None:
    for step, ids in enumerate(batches, start):
        (layer(paddle.to_tensor(ids)).sum() * (0.5 + step)).backward()
        adam.step()
        adam.clear_grad()


@pytest.mark.parametrize(
    ("batches", "way"),
    [([[1, 2], [2, 3, 3], [7], [1]], "foreach"), ([list(range(60)), [3], list(range(50, 120)), [399]], "fused")],
)
def test_it_is_torchs_adam_bit_for_bit(batches: list[list[int]], way: str) -> None:
    begin = torch.randn(ROWS, 3)
    layer = _embedding(begin)
    _steps(layer, paddle.optimizer.Adam(0.1, parameters=layer.parameters()), batches)
    plain = torch.nn.Parameter(begin.clone())
    settings: Any = {way: True}
    theirs = torch.optim.Adam([plain], 0.1, **settings)
    for step, ids in enumerate(batches):
        plain.grad = _gradient_of(ids, step)
        theirs.step()
    assert torch.equal(torch.as_tensor(layer.weight.detach()), plain.detach())


def test_only_rows_that_were_seen_are_walked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _embedding(torch.randn(ROWS, 3))
    adam = paddle.optimizer.Adam(0.1, parameters=layer.parameters())
    walked = []
    own = touched.Touched.add

    def add(self: touched.Touched, rows: torch.Tensor) -> None:
        own(self, rows)
        walked.append(len(self.rows))

    monkeypatch.setattr(touched.Touched, "add", add)
    _steps(layer, adam, [[1, 2], [2, 3], [9]])
    assert walked == [2, 3, 4]


def test_a_state_that_was_loaded_or_written_goes_on() -> None:
    begin, batches = torch.randn(ROWS, 3), [[5, 6], [6], [8]]
    whole, parts = _embedding(begin), _embedding(begin)
    adam = paddle.optimizer.Adam(0.1, parameters=whole.parameters())
    _steps(whole, adam, [*batches, [9], [9]])
    first = paddle.optimizer.Adam(0.1, parameters=parts.parameters())
    _steps(parts, first, batches)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = paddle.optimizer.Adam(0.1, parameters=parts.parameters())
    second.load_state_dict(torch.load(file))  # which refuses classes of ours
    _steps(parts, second, [[9]], 3)
    moments = second.state[parts.weight]["exp_avg"]
    moments.copy_(moments.clone())  # by somebody else, in place
    _steps(parts, copy.copy(second), [[9]], 4)
    assert torch.equal(whole.weight.detach(), parts.weight.detach())


def test_a_dense_gradient_between_sparse_ones_is_seen() -> None:
    """torch's fused pass writes moments of every row and leaves their version as it was."""
    begin = torch.randn(ROWS, 3)
    layer = _embedding(begin)
    adam = paddle.optimizer.Adam(0.1, parameters=layer.parameters())
    plain = torch.nn.Parameter(begin.clone())
    theirs = torch.optim.Adam([plain], 0.1)
    for step, ids in enumerate([[1, 2], [7], [1], [2]]):
        loss = layer(paddle.to_tensor(ids)).sum() * (0.5 + step)
        plain.grad = _gradient_of(ids, step)
        if step == 1:
            loss = loss + layer.weight.sum()
            plain.grad += 1
        loss.backward()
        adam.step()
        adam.clear_grad()
        theirs.step()
    torch.testing.assert_close(torch.as_tensor(layer.weight.detach()), plain.detach())


def test_a_gradient_that_is_sparse_in_both_dimensions_is_left_to_torch() -> None:
    begin = torch.randn(ROWS, 3)
    layer = _embedding(begin)
    plain = torch.nn.Parameter(begin.clone())
    place = torch.tensor([[3], [1]])
    layer.weight.grad = torch.sparse_coo_tensor(place, torch.tensor([2.0]), (ROWS, 3), check_invariants=True)
    plain.grad = layer.weight.grad.to_dense()
    paddle.optimizer.Adam(0.1, parameters=layer.parameters()).step()
    torch.optim.Adam([plain], 0.1).step()
    torch.testing.assert_close(torch.as_tensor(layer.weight.detach()), plain.detach())
