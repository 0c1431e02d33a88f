"""Functions of 2.1 and 2.2 are numpy's or torch's."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError

paddle: Any = import_module("paddle")

X = np.random.default_rng(0).random((3, 4)) * 0.8 + 0.1
N = np.array([4, 6, 9])
M = np.array([6, 4, 6])


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("acosh", [X + 1], np.arccosh(X + 1)),
        ("asinh", [X], np.arcsinh(X)),
        ("atanh", [X], np.arctanh(X)),
        ("angle", [-X], np.angle(-X)),
        ("deg2rad", [X], np.deg2rad(X)),
        ("rad2deg", [X], np.rad2deg(X)),
        ("expm1", [X], np.expm1(X)),
        ("neg", [X], -X),
        ("trunc", [X * 9], np.trunc(X * 9)),
        ("atan2", [X, -X], np.arctan2(X, -X)),
        ("fmax", [X, 1 - X], np.fmax(X, 1 - X)),
        ("fmin", [X, 1 - X], np.fmin(X, 1 - X)),
        ("gcd", [N, M], np.gcd(N, M)),
        ("lcm", [N, M], np.lcm(N, M)),
        ("inner", [X, X], np.inner(X, X)),
        ("outer", [X, N * 1.0], np.outer(X, N)),
        ("tensordot", [X, X, 2], np.tensordot(X, X, 2)),
        ("bitwise_and", [N, M], N & M),
        ("bitwise_or", [N, M], N | M),
        ("bitwise_xor", [N, M], N ^ M),
        ("bitwise_not", [N], ~N),
        ("bincount", [N], np.bincount(N)),
        ("cumprod", [X, 1], np.cumprod(X, 1)),
        ("cumprod", [X], np.cumprod(X)),
        ("diagflat", [N, 1], np.diagflat(N, 1)),
        ("diagonal", [X, 1], np.diagonal(X, 1)),
        ("diff", [X, 2, 0], np.diff(X, 2, 0)),
        ("moveaxis", [X, 0, 1], np.moveaxis(X, 0, 1)),
        ("quantile", [X, 0.3, 1], np.quantile(X, 0.3, 1)),
        ("repeat_interleave", [X, 2, 1], np.repeat(X, 2, 1)),
        ("rot90", [X], np.rot90(X)),
        ("searchsorted", [np.sort(X[0]), X[1]], np.searchsorted(np.sort(X[0]), X[1])),
        ("take_along_axis", [X, np.array([[0], [2], [1]]), 1], np.take_along_axis(X, np.array([[0], [2], [1]]), 1)),
        ("lerp", [X, 1 - X, 0.25], X + 0.25 * (1 - 2 * X)),
        ("digamma", [X], torch.digamma(torch.tensor(X)).numpy()),
        ("lgamma", [X], torch.lgamma(torch.tensor(X)).numpy()),
        ("erfinv", [X], torch.erfinv(torch.tensor(X)).numpy()),
        ("as_real", [X + 2j], np.stack([X, np.full_like(X, 2)], -1)),
        ("nn.functional.mish", [X], X * np.tanh(np.log1p(np.exp(X)))),
        ("nn.functional.celu", [-X, 0.5], 0.5 * np.expm1(-X / 0.5)),
        ("nn.functional.glu", [X], X[:, :2] / (1 + np.exp(-X[:, 2:]))),
    ],
)
def test_values(name: str, given: list[Any], wanted: Any) -> None:
    function: Any = paddle
    for part in name.split("."):
        function = getattr(function, part)
    made = function(*(paddle.to_tensor(one) if isinstance(one, np.ndarray) else one for one in given))
    assert type(made) is paddle.Tensor
    np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-5, atol=1e-7)


def test_several_results() -> None:
    x = paddle.to_tensor([[3.0, 1.0, 1.0]])
    assert [one.tolist() for one in paddle.kthvalue(x, 3)] == [[3.0], [0]]
    assert paddle.mode(x)[0].tolist() == [1.0]


def test_kinds_of_elements() -> None:
    x = paddle.to_tensor([1.5])
    assert (paddle.is_floating_point(x), paddle.is_integer(x), paddle.is_complex(x)) == (True, False, False)
    assert paddle.is_integer(paddle.to_tensor([1]))
    assert not paddle.is_integer(paddle.to_tensor([True]))


def test_sums_by_letters() -> None:
    x = paddle.to_tensor(X)
    made = paddle.einsum("ij,kj->ik", x, x)
    assert type(made) is paddle.Tensor
    np.testing.assert_allclose(made.numpy(), X @ X.T)


def test_values_are_put_along_a_dimension() -> None:
    x, places = paddle.ones([2, 2]), paddle.to_tensor([[0], [1]])
    assert paddle.put_along_axis(x, places, 5.0, 1).tolist() == [[5, 1], [1, 5]]
    assert paddle.put_along_axis(x, places, 5.0, 1, "add").tolist() == [[6, 1], [1, 6]]
    with pytest.raises(UsageError, match="reduce must be assign, add or multiply, got 'mean'"):
        paddle.put_along_axis(x, places, 5.0, 1, "mean")


def test_a_drawn_class_is_one_of_them() -> None:
    made = paddle.nn.functional.gumbel_softmax(paddle.to_tensor(X), temperature=0.5, hard=True)
    assert made.sum(1).tolist() == [1, 1, 1]
    assert paddle.nn.Mish()(paddle.to_tensor([0.0])).tolist() == [0.0]
