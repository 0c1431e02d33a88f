"""Sizes that are variables: what a program makes of them is what the same numbers give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import UsageError
from fleet_paddle import imperative, mode
from fleet_paddle.fluid import layers as fluid_layers
from fleet_paddle.imperative.functions.several import einsum
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from program_support.programs import building

L: Any = fluid_layers
X = np.random.default_rng(6).standard_normal((2, 4, 6)).astype(np.float32)
SIZES = np.array([2, 3, 8], np.int32)
IDS = np.array([[1], [0], [2]])

CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "reshape": (lambda g: L.reshape(g.x, [0, g.n, -1], act="relu"), np.maximum(X.reshape(2, 3, 8), 0)),
    "reshape by all": (lambda g: L.reshape(g.x, g.s), X.reshape(2, 3, 8)),
    "reshape, actual": (lambda g: L.reshape(g.x, [-1, 2, 12], actual_shape=g.s), X.reshape(2, 3, 8)),
    "reshape of 2.0": (lambda g: imperative.reshape(g.x, [g.n, -1]), X.reshape(3, 16)),
    "slice": (lambda g: L.slice(g.x, [1, 2], [0, g.n], [g.n, 6]), X[:, :3, 3:]),
    "slice by all": (lambda g: L.slice(g.x, [2], g.n, L.elementwise_add(g.n, g.n)), X[:, :, 3:6]),
    "slice of 2.0": (lambda g: imperative.slice(g.x, [1], [1], [g.n]), X[:, 1:3]),
    "strided_slice": (lambda g: imperative.strided_slice(g.x, [2], [0], [6], [g.n]), X[:, :, ::3]),
    "expand": (lambda g: L.expand(g.x, [1, g.n, 1]), np.tile(X, [1, 3, 1])),
    "tile": (lambda g: imperative.tile(g.x, g.s), np.tile(X, [2, 3, 8])),
    "expand of 2.0": (lambda g: imperative.expand(g.x, [g.n, -1, 4, 6]), np.broadcast_to(X, (3, 2, 4, 6))),
    "range": (lambda g: L.range(0, g.n, 1, "int64"), np.arange(3)),
    "arange": (lambda g: imperative.arange(g.n, 9, 2), np.arange(3, 9, 2)),
    "topk": (lambda g: L.topk(g.x, g.n)[0], -np.sort(-X, -1)[..., :3]),
    "topk of 2.0": (lambda g: imperative.topk(g.x, g.n, axis=1, largest=False)[0], np.sort(X, 1)[:, :3]),
    "one_hot": (lambda g: L.one_hot(g.i, g.n), np.eye(3, dtype=np.float32)[IDS[:, 0]]),
    "sequence_mask": (lambda g: L.sequence_mask(g.s, g.n, "float32"), np.arange(3) < SIZES[:, None]),
    "sequence_mask of 2.0": (lambda g: F.sequence_mask(g.s, g.n), np.arange(3) < SIZES[:, None]),
    "clip": (lambda g: imperative.clip(g.x, max=L.cast(g.n, "float32") * 0.1), np.minimum(X, np.float32(0.3))),
    "scale": (lambda g: L.scale(g.x, L.cast(g.n, "float32"), 1.0), X * 3 + 1),
    "scale after": (lambda g: L.scale(g.x, L.cast(g.n, "float32"), 1.0, bias_after_scale=False), (X + 1) * 3),
    "pow": (lambda g: L.pow(L.abs(g.x), L.cast(g.n, "float32")), np.abs(X) ** 3),
    "einsum": (lambda g: einsum("bij,bkj->bik", g.x, g.x), np.einsum("bij,bkj->bik", X, X)),
}


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        mode.enable_static()
        yield


@pytest.mark.parametrize("kind", CASES)
def test_values_decide_about_sizes(kind: str) -> None:
    build, wanted = CASES[kind]
    with building() as built:
        x, n = static.data("x", [None, 4, 6]), static.data("n", [1], "int64")
        s, i = static.data("s", [3], "int32"), static.data("i", [None, 1], "int64")
        x.stop_gradient = False
        out = build(SimpleNamespace(x=x, n=n, s=s, i=i))
        slopes = [] if out.stop_gradient else static.gradients(imperative.sum(out), [x])
    fed = {"x": X, "n": np.array([3]), "s": SIZES, "i": IDS}
    found, *slope = built.run(fed, out, *slopes)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert len(out.shape) == found.ndim
    assert all(size in (-1, real) for size, real in zip(out.shape, found.shape, strict=True)), out
    assert [one.shape for one in slope] == [X.shape] * len(slopes)
    text = str(built.main)
    assert str(static.Program.parse_from_string(text)) == text


def test_a_number_of_sizes_must_be_known() -> None:
    with building(), pytest.raises(UsageError, match="the number of sizes must be known; give them in a list"):
        L.reshape(static.data("x", [None, 4]), static.data("s", [None], "int32"))
