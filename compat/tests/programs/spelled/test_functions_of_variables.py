"""Every function of 2.0 takes variables, but for a few that are named here; what they give is what tensors give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fleet_paddle.imperative as paddle
import fleet_programs as static
from fleet.errors import UsageError
from fleet_paddle import mode
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.rows.listing import functions
from fleet_paddle.rows.tensors import newer
from program_support.both_ways import same
from program_support.programs import building

OF_TENSORS_ALONE = {
    "broadcast_shape": "it takes shapes, which are known in both",
}
"""Functions that no variable can be given, and why."""

RANDOM = np.random.default_rng(8)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


ROWS, SQUARE, IMAGE, VOLUME = floats(4, 6), floats(3, 3), floats(2, 4, 6, 6), floats(2, 4, 3, 4, 5)
POSITIVE = (SQUARE @ SQUARE.T + 3 * np.eye(3)).astype(np.float32)
GRID = RANDOM.uniform(-1.2, 1.2, (2, 5, 3, 2)).astype(np.float32)
THETA, CUBES = floats(2, 2, 3), floats(2, 3, 3)
LABELS = np.array([0, 2, 1, 2])
TRUTH = (ROWS > 0).astype(np.float32)
NUMBERS = np.array([[1, 3, 3, 2], [1, 2, 2, 2]])
PLACES = np.array([[0, 1], [3, 2], [0, 1]])
SCORES, SPELT = floats(7, 2, 4), np.array([[1, 2, 2], [3, 1, 0]])
STEPS, LENGTHS = np.array([7, 6]), np.array([3, 2])
NAN = np.array([[1.0, np.nan, 2.0], [np.nan, 5.0, 1.0]], np.float32)

CALLS: dict[str, tuple[Any, ...]] = {
    "affine_grid": (lambda t: F.affine_grid(t, [2, 3, 4, 5]), THETA),
    "affine_grid, pixels": (lambda t: F.affine_grid(t, [2, 3, 4, 5], False), THETA),
    "argmax of all": (lambda x: paddle.argmax(x, keepdim=True), ROWS),
    "bilinear": (lambda x, y, w, b: F.bilinear(x, y, w, b), ROWS, floats(4, 3), floats(2, 6, 3), floats(2)),
    "bilinear without bias": (lambda x, y, w: F.bilinear(x, y, w), ROWS, floats(4, 3), floats(2, 6, 3)),
    "cholesky": (lambda x: paddle.cholesky(x @ x.transpose([1, 0]) + paddle.eye(3)), POSITIVE),
    "cross": (lambda x, y: paddle.cross(x, y), CUBES, floats(2, 3, 3)),
    "cross_entropy by weight": (
        lambda x, y, w: F.cross_entropy(x, y, w, soft_label=True, reduction="sum"),
        *(ROWS, TRUTH, np.abs(floats(6))),
    ),
    "cross_entropy of distributions": (
        lambda x: F.cross_entropy(x, paddle.full_like(x, 0.25), soft_label=True, reduction="none"),
        ROWS,
    ),
    "cross_entropy without softmax": (
        lambda x, y: F.cross_entropy(F.softmax(x, 1), y, use_softmax=False, axis=1, reduction="none"),
        *(floats(2, 3, 5), np.array([[0, 1, 2, 0, 1], [2, 2, 1, 0, 0]])),
    ),
    "ctc_loss": (lambda x, y, n, m: F.ctc_loss(x, y, n, m), SCORES, SPELT, STEPS, LENGTHS),
    "ctc_loss by times": (
        lambda x, y, n, m: F.ctc_loss(x, y, n, m, 3, "none", True),
        *(SCORES, SPELT % 3, STEPS, LENGTHS),
    ),
    "diag": (lambda x: paddle.diag(x, 1, 7.0), floats(4)),
    "diag of a matrix": (lambda x: paddle.diag(x, -1), SQUARE),
    "diag_embed": (lambda x: F.diag_embed(x, 1, 0, 2), floats(2, 3)),
    "elu_": (lambda x: F.elu_(x * 1.0, 0.5), ROWS),
    "flatten in the middle": (lambda x: paddle.flatten(x, 1, 2), IMAGE),
    "grid_sample": (lambda x, g: F.grid_sample(x, g), IMAGE, GRID),
    "grid_sample, borders": (lambda x, g: F.grid_sample(x, g, "nearest", "border", False), IMAGE, GRID),
    "grid_sample, reflecting": (lambda x, g: F.grid_sample(x, g, padding_mode="reflect"), IMAGE, GRID),
    "histogram": (lambda x: paddle.histogram(x, 4, -1.0, 1.0), ROWS),
    "hsigmoid_loss": (
        lambda x, y, w, b: F.hsigmoid_loss(x, y, 3, w, b),
        *(ROWS, LABELS[:, None], floats(2, 6), floats(2, 1)),
    ),
    "hsigmoid_loss by ways": (
        lambda x, y, w, t, c: F.hsigmoid_loss(x, y, 3, w, path_table=t, path_code=c),
        *(ROWS, LABELS[:, None], floats(4, 6), np.array([[0, 1, -1]] * 4), np.array([[1, 0, 0]] * 4)),
    ),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), IMAGE, floats(4), floats(4)),
    "interpolate, nearest": (lambda x: F.interpolate(x, [3, 9]), IMAGE),
    "interpolate, times": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "interpolate, corners": (lambda x: F.interpolate(x, 4, None, "bicubic", True), IMAGE),
    "interpolate, volumes": (lambda x: F.interpolate(x, [4, 5, 6], mode="trilinear"), VOLUME),
    "interpolate, last": (lambda x: F.upsample(x, [3, 8], mode="area", data_format="NHWC"), IMAGE),
    "inverse": (lambda x: paddle.inverse(x), POSITIVE),
    "isclose": (lambda x, y: paddle.isclose(x, y, equal_nan=True), NAN, np.roll(NAN, 1)),
    "kron": (lambda x, y: paddle.kron(x, y), floats(2, 3), floats(1, 2)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3, 0.1), IMAGE),
    "local_response_norm, last": (lambda x: F.local_response_norm(x, 3, 0.1, data_format="NHWC"), IMAGE),
    "median": (lambda x: paddle.median(x, 1, True), ROWS),
    "median of all": (lambda x: paddle.median(x), ROWS),
    "functions of 2.1": (
        lambda x: [paddle.asinh(x), paddle.expm1(x), paddle.lgamma(x * x + 1.0), paddle.neg(x), paddle.trunc(x)],
        ROWS,
    ),
    "atan2": (lambda x, y: [paddle.atan2(x, y), paddle.fmax(x, y), paddle.inner(x, y)], ROWS, floats(4, 6)),
    "gcd": (lambda x, y: [paddle.gcd(x, y), paddle.lcm(x, y)], NUMBERS, NUMBERS + 1),
    "outer": (lambda x, y: paddle.outer(x, y), floats(3), floats(4)),
    "diagonal": (lambda x: [paddle.diagonal(x, 1, 1, 2), paddle.diagflat(x[0, 0])], CUBES),
    "glu": (lambda x: F.glu(x), ROWS),
    "take_along_axis": (lambda x, i: paddle.take_along_axis(x, i, 1), ROWS, np.array([[0, 5], [1, 1], [2, 0], [3, 3]])),
    "meshgrid": (lambda x, y: paddle.meshgrid(x, y), floats(3), floats(4)),
    "normalize": (lambda x: F.normalize(x, 3, 1), ROWS),
    "npair_loss": (lambda x, y, z: F.npair_loss(x, y, z), ROWS, floats(4, 6), LABELS),
    "pad, reflecting": (lambda x: F.pad(x, [1, 2, 0, 1], "reflect"), IMAGE),
    "pad, copying": (lambda x: F.pad(x, [1, 2], "replicate", data_format="NLC"), floats(2, 5, 3)),
    "pad, circular": (lambda x: F.pad(x, [1, 1, 0, 2, 1, 0], "circular"), VOLUME),
    "pad by one number": (lambda x: F.pad(x, 1), IMAGE),
    "pairwise distance": (lambda x, y: nn.PairwiseDistance(3.0, keepdim=True)(x, y), ROWS, floats(4, 6)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), IMAGE),
    "pixel_shuffle, last": (lambda x: F.pixel_shuffle(x, 2, "NHWC"), floats(2, 3, 3, 4)),
    "relu_": (lambda x: F.relu_(x * 1.0), ROWS),
    "reshape_": (lambda x: paddle.reshape_(x * 1.0, [-1, 2]), ROWS),
    "scatter_": (lambda x, u: paddle.scatter_(x * 1.0, paddle.arange(2), u), ROWS, floats(2, 6)),
    "scatter_nd": (lambda i, u: paddle.scatter_nd(i, u, [4, 6]), PLACES, floats(3)),
    "scatter_nd_add": (lambda x, i, u: paddle.scatter_nd_add(x, i, u), ROWS, PLACES, floats(3)),
    "sigmoid_focal_loss": (lambda x, y, n: F.sigmoid_focal_loss(x, y, n), ROWS, TRUTH, np.ones(1, np.float32)),
    "sigmoid_focal_loss, all": (lambda x, y: F.sigmoid_focal_loss(x, y, reduction="none"), ROWS, TRUTH),
    "softmax_": (lambda x: F.softmax_(x * 1.0, 0), ROWS),
    "squeeze_": (lambda x: paddle.squeeze_(paddle.unsqueeze_(x * 1.0, 1), 1), ROWS),
    "tanh_": (lambda x: paddle.tanh_(x * 1.0) + F.tanh_(x * 2.0), ROWS),
    "temporal_shift": (lambda x: F.temporal_shift(x, 2, 0.25), floats(4, 4, 3, 3)),
    "topk, least": (lambda x: paddle.topk(x, 2, axis=0, largest=False), ROWS),
    "trace": (lambda x: paddle.trace(x, 1, 1, 2), CUBES),
    "trace of one": (lambda x: paddle.trace(x), SQUARE),
    "unfold": (lambda x: F.unfold(x, [3, 2], 2, 1), IMAGE),
    "unfold, sides": (lambda x: F.unfold(x, 3, paddings=[1, 0, 0, 2]), IMAGE),
    "unique": (lambda x: paddle.unique(x, True, True, True), NUMBERS),
    "unique, alone": (lambda x: paddle.unique(x), NUMBERS),
    "unique rows": (lambda x: paddle.unique(x, return_counts=True, axis=0, dtype="int32"), PLACES),
}


LABELLED = {"cross_entropy by weight", "sigmoid_focal_loss", "sigmoid_focal_loss, all"}
"""Those whose labels and weights get no gradient in programs."""


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        yield


def test_every_function_takes_variables_but_for_these() -> None:
    refused = {one.spelling.name for one in functions() if one.of_variables is None}
    later = {one.spelling.name for one in newer.FUNCTIONS}  # of 2.1 and 2.2, on tensors alone so far
    assert refused - later == set(OF_TENSORS_ALONE)


@pytest.mark.parametrize("kind", CALLS)
def test_values_gradients_and_forms(kind: str) -> None:
    call, *arrays = CALLS[kind]
    same(call, *arrays, moving=1 if kind in LABELLED else None)


def test_sizes_that_a_batch_decides() -> None:
    same(lambda x: paddle.flatten(x, 0, 1), IMAGE, unknown=True)
    same(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), IMAGE, unknown=True)
    same(lambda x: F.unfold(x, 2), IMAGE, unknown=True)
    mode.enable_static()
    with building() as built:
        x, like = static.data("x", [None, 4, 6, 6]), static.data("like", [None, 4, None, None])
        out = F.interpolate(x, paddle.slice(paddle.shape(like), [0], [2], [4]), mode="bilinear")
        part = F.interpolate(x, [static.data("n", [1], "int64"), 5])
    assert out.shape == (-1, 4, -1, -1)
    fed = {"x": IMAGE, "like": IMAGE[:, :, :3, :5], "n": np.array([2])}
    assert [one.shape for one in built.run(fed, out, part)] == [(2, 4, 3, 5), (2, 4, 2, 5)]


RANDOM_ONES: dict[str, Callable[[Any], Any]] = {
    "dropout of rows": lambda x: F.dropout(x, 0.5, axis=0),
    "dropout of columns": lambda x: F.dropout(x, 0.5, axis=[1], mode="downscale_in_infer"),
    "dropout2d": lambda x: F.dropout2d(x, 0.5),
    "dropout3d": lambda x: F.dropout3d(paddle.unsqueeze(x, 4), 0.5, data_format="NDHWC"),
}


@pytest.mark.parametrize("kind", RANDOM_ONES)
def test_values_are_dropped_together(kind: str) -> None:
    mode.enable_static()
    with building() as built:
        x = static.data("x", [None, 8, 3, 2])
        x.stop_gradient = False
        out = RANDOM_ONES[kind](x)
        (slope,) = static.gradients(paddle.sum(out), [x])
    ones = np.ones((16, 8, 3, 2), np.float32)
    made, grad = built.run({"x": ones}, out, slope)
    np.testing.assert_array_equal(made.reshape(grad.shape), grad)
    kept = {"dropout of rows": (1, 2, 3), "dropout of columns": (0, 2, 3), "dropout2d": (2, 3), "dropout3d": (1, 2, 3)}
    grown = 1.0 if kind == "dropout of columns" else 2.0
    assert set(np.unique(made)) == {0.0, grown}
    assert not np.ptp(made.reshape(grad.shape), axis=kept[kind]).any()


def test_alpha_dropout_keeps_mean_and_variance_and_nothing_is_drawn_in_evaluation() -> None:
    mode.enable_static()
    with building() as built:
        built.main.random_seed = 5
        x = static.data("x", [None, 500])
        x.stop_gradient = False
        out = nn.AlphaDropout(0.3)(x)
        coins = paddle.bernoulli(F.sigmoid(x))
        drawn = paddle.multinomial(F.softmax(x), 3)
        (slope,) = static.gradients(paddle.sum(out), [x])
    evaluated = built.main.clone(for_test=True)
    given = floats(100, 500)
    made, grad, coin, places = built.run({"x": given}, out, slope, coins, drawn)
    assert abs(made.mean()) < 0.05
    assert abs(made.std() - 1) < 0.05
    assert abs((grad == 0).mean() - 0.3) < 0.02
    assert set(np.unique(coin)) == {0.0, 1.0}
    assert abs(coin.mean() - 0.5) < 0.02
    assert all(len(set(row)) == 3 for row in places)
    np.testing.assert_array_equal(static.Executor().run(evaluated, {"x": given}, [out], scope=built.scope)[0], given)


def test_mistakes_are_told_in_one_line_where_they_are_made() -> None:
    mode.enable_static()
    with building():
        x = static.data("x", [None, 4, 6, 6])
        mistakes: list[tuple[Callable[[], Any], str]] = [
            (
                lambda: F.pixel_shuffle(x, 3),
                "test_functions_of_variables.py:[0-9]+: pixel_shuffle_v2: Invalid input shape",
            ),
            (lambda: F.interpolate(x), "give size or scale_factor, got None and None"),
            (lambda: F.interpolate(x, 3, mode="cubic"), "interp_v2: interpolate: mode must be one of nearest, linear"),
            (lambda: paddle.cross(x, x), "cross: x must have a dimension of size 3"),
            (lambda: F.pad(x, [1, 2, 3], "reflect"), "takes 4 numbers, or with mode constant 8, got 3"),
            (lambda: paddle.multinomial(x), "multinomial: X must be"),
        ]
        for call, message in mistakes:
            with pytest.raises(UsageError, match=message) as raised:
                call()
            assert "\n" not in str(raised.value)
