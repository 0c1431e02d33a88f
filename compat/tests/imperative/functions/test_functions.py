"""Functions of tensors, and the methods of the same names, equal numpy's and mean what Paddle's mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fleet_paddle.imperative as paddle
from fleet.errors import UsageError

A = np.array([[3.0, 1.0, 2.0], [9.0, -7.0, 8.0]], np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SQUARE = np.array([[4.0, 1.0], [1.0, 3.0]], np.float32)


def t(value: Any, dtype: str | None = None) -> Any:
    return paddle.to_tensor(value, dtype)


X, BOX, SQ = t(A), t(CUBE), t(SQUARE)
IDS = t([1, 0])

CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "sort": (lambda: paddle.sort(X, axis=1), np.sort(A, 1)),
    "sort descending": (lambda: X.sort(descending=True), -np.sort(-A, 1)),
    "argsort": (lambda: paddle.argsort(X, descending=True), np.argsort(-A, 1)),
    "topk": (lambda: paddle.topk(X, t([2]), axis=0)[1], [[1, 0, 1], [0, 1, 0]]),
    "unique": (lambda: paddle.unique(t([2, 1, 2])), [1, 2]),
    "unique places": (lambda: paddle.unique(t([2, 1, 2]), return_index=True)[1], [1, 0]),
    "unique inverse": (lambda: paddle.unique(t([2, 1, 2]), return_inverse=True)[1], [1, 0, 1]),
    "unique counts": (lambda: paddle.unique(t([2, 1, 2]), return_counts=True, dtype="int32")[1], [1, 2]),
    "unique rows": (lambda: paddle.unique(t([[2, 1], [0, 1], [2, 1]]), axis=0), [[0, 1], [2, 1]]),
    "histogram": (lambda: paddle.histogram(t([1, 2, 1]), bins=4, min=0, max=3), [0, 2, 1, 0]),
    "cumsum": (lambda: paddle.cumsum(X), A.cumsum()),
    "cumsum of rows": (lambda: X.cumsum(axis=1), A.cumsum(1)),
    "logsumexp": (lambda: paddle.logsumexp(X), np.log(np.exp(A).sum())),
    "logsumexp of rows": (lambda: X.logsumexp(axis=[1], keepdim=True), np.log(np.exp(A).sum(1, keepdims=True))),
    "prod": (lambda: paddle.prod(X), A.prod()),
    "prod of some": (lambda: paddle.prod(BOX, axis=[0, -1], keepdim=True), CUBE.prod((0, 2), keepdims=True)),
    "prod as": (lambda: X.prod(axis=0, dtype="float64"), A.astype(np.float64).prod(0)),
    "all": (lambda: paddle.all(X > 0), False),
    "any": (lambda: paddle.any(X > 5, axis=1, keepdim=True), [[False], [True]]),
    "std": (lambda: paddle.std(X, axis=1, unbiased=False), A.std(1)),
    "var": (lambda: paddle.var(X, axis=[0, 1]), A.var(ddof=1)),
    "median": (lambda: paddle.median(X), 2.5),
    "median of rows": (lambda: X.median(axis=1, keepdim=True), [[2], [8]]),
    "argmax": (lambda: X.argmax(axis=0, dtype="int32"), A.argmax(0)),
    "norm": (lambda: X.norm(p=1, axis=1), np.abs(A).sum(1)),
    "norm of all": (lambda: paddle.norm(X), np.sqrt((A * A).sum())),
    "round": (lambda: paddle.round(t([0.5, 1.5, 2.5, -0.5, 0.49999997, -2.4])), [1, 2, 3, -1, 0, -2]),
    "scale": (lambda: paddle.scale(X, 2.0, -3.0, act="relu"), np.maximum(A * 2 - 3, 0)),
    "stanh": (lambda: paddle.stanh(X), 1.7159 * np.tanh(0.67 * A)),
    "add_n": (lambda: paddle.add_n([X, X, X]), A * 3),
    "multiply along": (lambda: paddle.multiply(X, t([2.0, 3.0]), axis=0), A * [[2], [3]]),
    "mod": (lambda: t([-4, 4]).mod(t([3, 3])), [2, 1]),
    "less_than": (lambda: X.less_than(t(2.0)), A < 2),
    "logical_and": (lambda: paddle.logical_and(X > 0, X < 3), (A > 0) & (A < 3)),
    "erf": (lambda: paddle.erf(t([0.0])), [0]),
    "log2": (lambda: paddle.log2(t([8.0])), [3]),
    "increment": (lambda: paddle.increment(t([1.0])), [2]),
    "gather": (lambda: X.gather(IDS), A[[1, 0]]),
    "gather along": (lambda: paddle.gather(X, IDS, axis=t([1])), A[:, [1, 0]]),
    "gather_nd": (lambda: paddle.gather_nd(X, t([[0, 1], [1, 2]])), [1, 8]),
    "gather_nd of rows": (lambda: BOX.gather_nd(t([[1]])), CUBE[[1]]),
    "index_select": (lambda: X.index_select(IDS, axis=1), A[:, [1, 0]]),
    "index_sample": (lambda: paddle.index_sample(X, t([[2, 0], [1, 1]])), [[2, 3], [-7, -7]]),
    "masked_select": (lambda: paddle.masked_select(X, X > 2), A[A > 2]),
    "nonzero": (lambda: paddle.nonzero(X > 7), [[1, 0], [1, 2]]),
    "nonzero in parts": (lambda: paddle.nonzero(X > 7, as_tuple=True)[1], [[0], [2]]),
    "where": (lambda: (X > 2).where(X, X * 0), np.where(A > 2, A, 0)),
    "where by torch": (lambda: X.where(X > 2, t(0.0)), np.where(A > 2, A, 0)),
    "scatter": (lambda: paddle.scatter(X, t([1]), t([[1.0, 1.0, 1.0]])), [[3, 1, 2], [1, 1, 1]]),
    "scatter sums": (lambda: X.scatter(t([1, 1]), t([[1.0] * 3] * 2), overwrite=False), [[3, 1, 2], [2, 2, 2]]),
    "scatter_nd": (lambda: paddle.scatter_nd(t([[1], [1]]), t([2.0, 3.0]), [3]), [0, 5, 0]),
    "scatter_nd_add": (lambda: paddle.scatter_nd_add(X, t([[0, 0]]), t([1.0])), A + np.eye(1, 6).reshape(2, 3)),
    "slice": (lambda: paddle.slice(BOX, [0, 2], [1, -3], [2, 9]), CUBE[1:2, :, -3:9]),
    "strided_slice": (lambda: paddle.strided_slice(BOX, [2], [3], [0], [-2]), CUBE[:, :, 3:0:-2]),
    "crop": (lambda: paddle.crop(BOX, [1, -1, 2], [1, 1, 0]), CUBE[1:, 1:, :2]),
    "multiplex": (lambda: paddle.multiplex([X, -X], t([[1], [0]])), [-A[0], A[1]]),
    "shard_index": (lambda: paddle.shard_index(t([[1], [16], [12]]), 20, 2, 1), [[-1], [6], [2]]),
    "reshape": (lambda: X.reshape([0, -1, 1]), A[:, :, None]),
    "reshape by a tensor": (lambda: X.reshape(t([3, 2])), A.reshape(3, 2)),
    "reshape by numbers": (lambda: X.reshape(3, -1), A.reshape(3, 2)),
    "flip": (lambda: X.flip(axis=0), A[::-1]),
    "flip both": (lambda: X.flip(0, 1), A[::-1, ::-1]),
    "roll": (lambda: X.roll(shifts=1, axis=1), np.roll(A, 1, 1)),
    "roll all": (lambda: paddle.roll(X, 2), np.roll(A, 2)),
    "expand_as": (lambda: t([1.0, 2.0, 3.0]).expand_as(X), [[1, 2, 3]] * 2),
    "broadcast_to": (lambda: t([1.0]).broadcast_to([2, 2]), [[1, 1]] * 2),
    "expand by a tensor": (lambda: paddle.expand(t([1.0]), t([2, 2])), [[1, 1]] * 2),
    "tile": (lambda: X.tile([2, 1]), np.tile(A, (2, 1))),
    "unstack": (lambda: paddle.unstack(X, axis=1, num=3)[2], A[:, 2]),
    "chunk": (lambda: paddle.chunk(X, 3, axis=1)[1], A[:, 1:2]),
    "unsqueeze": (lambda: paddle.unsqueeze(X, t([0, 3])), A[None, :, :, None]),
    "squeeze_": (lambda: t(A[None]).squeeze_(0), A),
    "unsqueeze_": (lambda: t(A).unsqueeze_([0]), A[None]),
    "reshape_": (lambda: t(A).reshape_([0, 3, 1]), A[:, :, None]),
    "flatten_": (lambda: t(A).flatten_(), A.ravel()),
    "dot": (lambda: paddle.dot(X, X), (A * A).sum(1, keepdims=True)),
    "cross": (lambda: paddle.cross(X, X[::-1]), np.cross(A, A[::-1])),
    "dist": (lambda: paddle.dist(X, X * 0, 1), np.abs(A).sum()),
    "mv": (lambda: paddle.mv(X, t([1.0, 0.0, 1.0])), A @ [1, 0, 1]),
    "addmm": (lambda: paddle.addmm(SQ, SQ, SQ, beta=2.0, alpha=0.5), SQUARE * 2 + SQUARE @ SQUARE / 2),
    "kron": (lambda: paddle.kron(SQ, SQ), np.kron(SQUARE, SQUARE)),
    "cholesky": (lambda: paddle.cholesky(SQ), np.linalg.cholesky(SQUARE)),
    "inverse": (lambda: paddle.inverse(SQ), np.linalg.inv(SQUARE)),
    "trace": (lambda: paddle.trace(BOX, 1, axis1=1, axis2=2), np.trace(CUBE, 1, 1, 2)),
    "diag": (lambda: paddle.diag(t([1.0, 2.0]), padding_value=9), [[1, 9], [9, 2]]),
    "tril": (lambda: paddle.tril(X, diagonal=-1), np.tril(A, -1)),
    "meshgrid": (lambda: paddle.meshgrid(t([1, 2]), t([3, 4]))[1], [[3, 4], [3, 4]]),
    "assign": (lambda: paddle.assign(A), A),
    "allclose": (lambda: paddle.allclose(X, X + 1e-9), True),
    "shape": (lambda: paddle.shape(BOX), [2, 3, 4]),
    "rank": (lambda: BOX.rank(), 3),
    "is_empty": (lambda: paddle.is_empty(X), False),
    "normal of a tensor": (lambda: paddle.normal(t([1.0, 2.0]), 0.0), [1, 2]),
    "bernoulli": (lambda: paddle.bernoulli(t([0.0, 1.0])), [0, 1]),
    "multinomial": (lambda: paddle.multinomial(t([0.0, 0.0, 1.0])), [2]),
}


@pytest.mark.parametrize("name", CASES)
def test_equal_to_numpy(name: str) -> None:
    made, wanted = CASES[name][0](), np.atleast_1d(CASES[name][1])
    assert type(made) is paddle.Tensor
    assert tuple(made.shape) == wanted.shape
    np.testing.assert_allclose(made.numpy().reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


def test_what_is_no_tensor() -> None:
    assert paddle.is_tensor(X)
    assert not paddle.is_tensor(A)
    assert paddle.broadcast_shape([2, 1, 3], [4, 3]) == [2, 4, 3]
    assert paddle.tolist(t([1, 2])) == [1, 2]


def test_gradients_flow_through_what_is_in_place_and_picked() -> None:
    w = paddle.to_tensor(A, stop_gradient=False)
    made: Any = w * 2
    made.reshape_([3, 2])
    paddle.scatter(made, t([0]), t([[0.0, 0.0]])).sum().backward()
    np.testing.assert_array_equal(w.gradient(), [[0, 0, 2], [2, 2, 2]])
    out = paddle.zeros([2, 3])
    paddle.assign(w, out).sum().backward()
    np.testing.assert_array_equal(w.gradient(), [[1, 1, 3], [3, 3, 3]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paddle.unstack(X, 0, 3), "num must be 2, the size of dimension 0, got 3"),
        (lambda: paddle.cross(SQ, SQ), "must have a dimension of size 3"),
        (lambda: paddle.crop(X, [1]), "must have 2 numbers, got 1 and 2"),
        (lambda: paddle.shard_index(IDS, 4, 2, 2), "shard_id must be from 0 to 1, got 2"),
        (lambda: paddle.normal(t([1.0]), 1.0, [2]), "shape must be left out beside a tensor"),
    ],
)
def test_mistakes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_what_torch_calls_by_the_same_names_is_torchs() -> None:
    assert torch.sort(X).indices.shape == (2, 3)
    np.testing.assert_allclose(torch.nn.functional.normalize(SQ, dim=1).square().sum(1), [1, 1], rtol=1e-6)
