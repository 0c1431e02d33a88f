"""Numbers are tensors of shape [1], as they are from PaddlePaddle 2.0 to 2.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paddle
from fleet_paddle.imperative import nn
from paddle.nn import functional as F  # noqa: N812 - as everybody calls it

X = paddle.to_tensor([3.0, 1.0, 2.0])
M = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
I = paddle.to_tensor([[0], [2]])  # noqa: E741 - labels

NUMBERS: dict[str, Callable[[], Any]] = {
    "to_tensor(5)": lambda: paddle.to_tensor(5),
    "to_tensor(numpy's)": lambda: paddle.to_tensor(np.float32(5)),
    "to_tensor(array(5))": lambda: paddle.to_tensor(np.array(5)),
    "to_tensor(torch's)": lambda: paddle.to_tensor(torch.tensor(5)),
    "full([])": lambda: paddle.full([], 5),
    "x[0]": lambda: X[0],
    "m[1, 2]": lambda: M[1, 2],
    "x[to_tensor(1)]": lambda: X[paddle.to_tensor(1)],
    "x[argmax(x)]": lambda: X[paddle.argmax(X)],
    "for one in x": lambda: next(iter(X)),
    "unbind(x)": lambda: paddle.unbind(X)[0],
    "squeeze([1])": lambda: paddle.squeeze(paddle.to_tensor([5.0])),
    "reshape([])": lambda: paddle.reshape(paddle.to_tensor([5.0]), []),
    "mean": lambda: paddle.mean(M),
    "x.mean()": lambda: M.mean(),
    "sum": lambda: paddle.sum(M),
    "max": lambda: X.max(),
    "max(axis)": lambda: X.max(axis=0),
    "prod": lambda: paddle.prod(M),
    "std": lambda: paddle.std(M),
    "var": lambda: paddle.var(M),
    "median": lambda: paddle.median(M),
    "logsumexp": lambda: paddle.logsumexp(M),
    "norm": lambda: paddle.norm(M),
    "dist": lambda: paddle.dist(X, X),
    "dot": lambda: paddle.dot(X, X),
    "matmul": lambda: paddle.matmul(X, X),
    "x @ x": lambda: X @ X,
    "trace": lambda: paddle.trace(M),
    "argmax": lambda: paddle.argmax(M),
    "numel": lambda: paddle.numel(M),
    "rank": lambda: paddle.rank(M),
    "any": lambda: paddle.any(M > 1),
    "equal_all": lambda: paddle.equal_all(M, M),
    "allclose": lambda: paddle.allclose(M, M),
    "is_empty": lambda: paddle.is_empty(M),
    "mse_loss": lambda: F.mse_loss(M, M),
    "cross_entropy": lambda: F.cross_entropy(M, I),
    "nn.L1Loss": lambda: paddle.nn.L1Loss()(M, M),
    "a layer's loss": lambda: Lossy()(M),
    "accuracy": lambda: paddle.metric.accuracy(F.softmax(M), I),
    "loss * 2 + 1": lambda: M.mean() * 2 + 1,
    "x[0] - m[0, 0]": lambda: X[0] - M[0, 0],
    "detach": lambda: M.mean().detach(),
    "clone": lambda: M.sum().clone(),
    "astype": lambda: paddle.argmax(M).astype("float32"),
    "einsum": lambda: paddle.einsum("i,i->", X, X),
}


class Lossy(nn.Layer):
    """Calls torch's own function."""

    def forward(self, x: Any) -> Any:
        """A plain number of torch."""
        return torch.nn.functional.mse_loss(x, x)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_of_shape_1(name: str) -> None:
    made = NUMBERS[name]()
    assert type(made) is paddle.Tensor
    assert made.shape == [1]
    assert made.ndim == 1
    assert made.numpy().shape == (1,)
    assert len(made) == 1


def test_what_follows_from_it() -> None:
    assert paddle.stack([M.mean(), M.max()]).shape == [2, 1]
    assert paddle.concat([M.mean(), M.max()]).shape == [2]
    assert M[paddle.argmax(X)].shape == [3]  # a whole number of shape [1] is a number in an index
    assert [one.shape for one in X] == [[1]] * 3
    values, places = paddle.topk(X, 1)
    assert (values.shape, places.shape) == ([1], [1])
    assert [one.shape for one in torch.Tensor.unbind(X)] == [()] * 3  # torch's own words mean what they mean
    data = paddle.io.TensorDataset([M, paddle.to_tensor([7, 8])])
    batch, labels = next(iter(paddle.io.DataLoader(data, batch_size=2)))
    assert (batch.shape, labels.shape) == ([2, 3], [2, 1])
    assert labels.numpy().tolist() == [[7], [8]]


def test_gradients_flow_through_numbers() -> None:
    w = paddle.to_tensor(2.0, stop_gradient=False)
    assert w.is_leaf
    x = paddle.to_tensor([1.0, 3.0], stop_gradient=False)
    loss = (x[1] * w + x.mean()).sum()
    loss.backward()
    assert w.grad.numpy().tolist() == [3.0]
    assert x.grad.numpy().tolist() == [0.5, 2.5]
    x = paddle.to_tensor([1.0, 3.0])
    x[0] = paddle.to_tensor(9.0)
    x[paddle.to_tensor(1)] = 8.0
    assert x.numpy().tolist() == [9.0, 8.0]


def test_torch_gets_its_numbers() -> None:
    """Its own code takes `x.sum()` of our tensor for a number, as it does of its own."""
    weight = paddle.create_parameter([3], "float32")
    weight.sum().backward()
    assert torch.nn.utils.clip_grad_norm_([weight], 1.0).dim() == 0
    assert "2.5" in str(paddle.to_tensor(2.5))
