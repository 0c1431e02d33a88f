"""What 1.8 has under `fluid.layers` of 2.0's functions: of variables and of tensors, by numpy's results."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleet.errors import NotSupportedError
from fleet_paddle.fluid import layers, newer
from fleet_programs.layers.io import fed
from program_support.programs import building

paddle: Any = import_module("paddle")

L = paddle.fluid.layers
X = np.arange(12, dtype="float32").reshape(3, 4) / 10
Y = np.array([[1, 2, 3], [0, 1, 4], [5, 6, 0]], "float32")
PLACES = np.array([2, 0])

CASES: dict[str, tuple[Callable[[SimpleNamespace], Any], Any]] = {
    "addcmul": (lambda v: L.addcmul(v.x, v.x, v.x, value=2.0), X + 2 * X * X),
    "allclose": (lambda v: L.allclose(v.x, v.x), [True]),
    "clamp": (lambda v: L.clamp(v.x, min=0.2, max=0.5), X.clip(0.2, 0.5)),
    "cross": (lambda v: L.cross(v.y, v.y * v.y, dim=1), np.cross(Y, Y * Y)),
    "diag_embed": (lambda v: L.diag_embed(v.x), X[:, :, None] * np.eye(4)),
    "dist": (lambda v: L.dist(v.x, v.x * 2), [np.sqrt((X * X).sum())]),
    "dot": (lambda v: L.dot(v.y, v.y), (Y * Y).sum(1, keepdims=True)),
    "elementwise_equal": (lambda v: L.elementwise_equal(v.x, v.x * v.x), X == X * X),
    "flip": (lambda v: L.flip(v.x, [0]), X[::-1]),
    "full": (lambda _: L.full([2, 1], 5, dtype="int64"), [[5], [5]]),
    "full_like": (lambda v: L.full_like(v.x, 2.0), X * 0 + 2),
    "index_select": (lambda v: L.index_select(v.x, v.i, dim=1), X[:, PLACES]),
    "kron": (lambda v: L.kron(v.x, v.y), np.kron(X, Y)),
    "log1p": (lambda v: L.log1p(v.x), np.log1p(X)),
    "logsumexp": (lambda v: L.logsumexp(v.x, dim=1, keepdim=True), np.log(np.exp(X).sum(1, keepdims=True))),
    "meshgrid": (lambda v: L.meshgrid([v.i, v.i])[0], [[2, 2], [0, 0]]),
    "nonzero": (lambda v: L.nonzero(v.y), np.argwhere(Y)),
    "roll": (lambda v: L.roll(v.x, shifts=1, dims=0), np.roll(X, 1, 0)),
    "trace": (lambda v: L.trace(v.y, offset=1), [6]),
    "tril": (lambda v: L.tril(v.x, diagonal=-1), np.tril(X, -1)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_of_variables_and_tensors(name: str) -> None:
    function, wanted = CASES[name]
    with building() as built:
        made = function(SimpleNamespace(x=fed("x", [3, 4]), y=fed("y", [3, 3]), i=fed("i", [2], "int64")))
    built.start()
    (found,) = built.run({"x": X, "y": Y, "i": PLACES}, made)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    with paddle.fluid.dygraph.guard():
        made = function(SimpleNamespace(x=paddle.to_tensor(X), y=paddle.to_tensor(Y), i=paddle.to_tensor(PLACES)))
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-5)


def test_what_is_drawn() -> None:
    with building() as built:
        made = [L.randn([2, 4]), L.randperm(6)]
    built.start()
    normal, order = built.run({}, *made)
    assert normal.shape == (2, 4)
    assert sorted(order) == list(range(6))
    with paddle.fluid.dygraph.guard():
        assert sorted(L.randperm(6).tolist()) == list(range(6))


def test_what_is_said_besides() -> None:
    with paddle.fluid.dygraph.guard():
        assert L.full([1], 1.0, stop_gradient=False).stop_gradient is False
        out = paddle.zeros([2])
        L.full([2], 3.0, out=out)
        assert out.tolist() == [3, 3]
        with pytest.raises(NotSupportedError, match="full: device must be left out"):
            L.full([1], 1.0, device="gpu")
        with pytest.raises(NotSupportedError, match="randperm: seed must be left out"):
            L.randperm(3, seed=1)


def test_a_name_stands_in_one_place() -> None:
    assert not set(newer.__all__) & set(layers.__all__)
