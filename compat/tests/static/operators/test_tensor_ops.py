"""Shapes, parts and places: forward and gradients against torch, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_programs import layers
from fleet_programs.backward.backward import gradients
from fleet_programs.layers.io import fed
from fleet_programs.operators.tensors.shaping import reshaped
from fleet_programs.program.variable import Variable
from program_support.programs import building
from program_support.static_ops import check, normal
from program_support.tensor_cases import TENSOR_CASES, Build, X


@pytest.mark.parametrize(
    ("build", "reference"), [case[1:] for case in TENSOR_CASES], ids=[case[0] for case in TENSOR_CASES]
)
def test_equals_torch(build: Build, reference: Build) -> None:
    check(build, {"x": X}, reference)


@pytest.mark.parametrize(
    "build",
    [
        lambda x, _: layers.reshape(x, [0, -1, 2]),
        lambda x, _: layers.flatten(x, 2),
        lambda x, y: layers.concat([x, y, x], 1),
        lambda x, _: layers.slice(x, [0, 1], [1, -2], [9, 9]),
    ],
)
def test_gradients_where_the_batch_decides_several_sizes(build: Build) -> None:
    shapes = {"x": normal(4, 3, 2), "y": normal(4, 2, 2)}
    with building() as built:
        given = [fed(name, [-1, -1, 2], "float64", stop_gradient=False) for name in shapes]
        out = build(*given)
        found = gradients(layers.reduce_sum(out * out), given)
    wanted = [one for one in found if one is not None]
    results = built.run(shapes, out, *wanted)
    leaves = [torch.from_numpy(value).requires_grad_() for value in shapes.values()]
    plain = {
        (4, 3, 2): leaves[0],
        (12, 2): leaves[0].flatten(0, 1),
        (4, 8, 2): torch.cat([leaves[0], leaves[1], leaves[0]], 1),
    }
    expected = plain.get(results[0].shape, leaves[0][1:, -2:])
    np.testing.assert_array_equal(results[0], expected.detach().numpy())
    slopes: tuple[torch.Tensor | None, ...] = torch.autograd.grad(expected.square().sum(), leaves, allow_unused=True)
    for var, leaf, slope in zip(found, leaves, slopes, strict=True):
        value = np.zeros(leaf.shape) if var is None else results[1 + wanted.index(var)]
        np.testing.assert_allclose(value, torch.zeros_like(leaf) if slope is None else slope)


@pytest.mark.parametrize(
    ("shape", "asked", "found"),
    [
        ((-1, 4), [-1, 2], [-1, 2]),
        ((-1, 4), [0, -1, 2], [-1, 2, 2]),
        ((-1, 4), [8], [8]),
        ((6, 4), [-1, 8], [3, 8]),
        ((6, 4), [0, 4], [6, 4]),
        ((-1, 4), [0, 3], None),
        ((-1, 4), [0, -1, 3], None),
        ((-1, 4), [-1, -1], None),
        ((6, 4), [5, -1], None),
        ((6, 4), [-2, 3], None),
        ((6,), [2, 0], None),
        ((-1, 4), [6], None),
    ],
)
def test_shapes_that_a_reshape_means(shape: tuple[int, ...], asked: list[int], found: list[int] | None) -> None:
    assert reshaped(shape, asked) == found


def test_gather_and_scatter() -> None:
    index = np.array([2, 0, 2])
    check(layers.gather, {"input": X, "index": index}, lambda x, i: x[i])
    check(layers.gather, {"input": X, "index": index[:, None]}, lambda x, i: x[i[:, 0]])
    places = np.array([[2, 1], [0, 0], [2, 1]])
    check(layers.gather_nd, {"input": X, "index": places}, lambda x, i: x[i[:, 0], i[:, 1]])
    new = normal(2, 3, 2)
    check(
        lambda x, ids, new: layers.scatter(x, ids, new),
        {"x": X, "ids": np.array([3, 1]), "new": new},
        lambda x, ids, new: x.index_copy(0, ids, new),
    )
    check(
        lambda x, ids, new: layers.scatter(x, ids, new, overwrite=False),
        {"x": X, "ids": np.array([1, 1]), "new": new},
        lambda x, ids, new: x.index_fill(0, ids, 0).index_add(0, ids, new),
    )


def test_places_and_classes() -> None:
    with building() as built:
        x, ids = fed("x", [-1, 3]), fed("ids", [-1, 1], "int64")
        outs = [
            *layers.topk(x, 2),
            layers.argmax(x, 1),
            layers.argmin(x, 0),
            layers.argsort(x, descending=True)[1],
            layers.one_hot(ids, 3),
            layers.one_hot(ids, 2, allow_out_of_range=True),
            layers.shape(x),
        ]
    values = np.array([[1, 3, 2], [6, 4, 5]], np.float32)
    found = built.run({"x": values, "ids": np.array([[0], [2]])}, *outs)
    assert [one.tolist() for one in found] == [
        [[3, 2], [6, 5]],
        [[1, 2], [0, 2]],
        [1, 0],
        [0, 0, 0],
        [[1, 2, 0], [0, 2, 1]],
        [[1, 0, 0], [0, 0, 1]],
        [[1, 0], [0, 0]],
        [2, 3],
    ]
    assert [one.shape for one in outs[:4]] == [(-1, 2), (-1, 2), (-1,), (3,)]


def test_comparisons_and_logic() -> None:
    with building() as built:
        x, y = fed("x", [-1]), fed("y", [1])
        less, same = layers.less_than(x, y), layers.equal(x, y)
        outs = [
            less,
            same,
            layers.not_equal(x, y),
            layers.less_equal(x, y),
            layers.greater_than(x, y),
            layers.greater_equal(x, y),
            layers.logical_and(less, same),
            layers.logical_or(less, same),
            layers.logical_xor(less, same),
            layers.logical_not(less),
            layers.reduce_all(less),
            layers.reduce_any(less),
            layers.isfinite(x),
            layers.has_nan(x),
            layers.has_inf(x),
        ]
        with pytest.raises(UsageError, match="X 'x' must be bool, got float32"):
            layers.logical_not(x)
    found = built.run({"x": np.array([1, 2, np.inf], np.float32), "y": np.array([2], np.float32)}, *outs)
    a, b = np.array([True, False, False]), np.array([False, True, False])
    expected = [a, b, ~b, a | b, ~(a | b), ~a, a & b, a | b, a ^ b, ~a, [False], [True], [False], [False], [True]]
    assert [one.tolist() for one in found] == [list(one) for one in expected]
    assert all(one.dtype == "bool" and one.stop_gradient for one in outs[:10])


def test_values_made_of_nothing() -> None:
    with building() as built:
        x = fed("x", [-1, 2])
        outs = [
            layers.zeros([2], "int64"),
            layers.ones([1, 2]),
            layers.zeros_like(x),
            layers.ones_like(x),
            layers.fill_constant_batch_size_like(x, [5, 1], "int64", 7),
            layers.fill_constant_batch_size_like(x, [1, 5], "float32", 7, output_dim_idx=1),
            layers.range(0, 6, 2, "int64"),
            layers.linspace(0, 1, 3, "float32"),
            layers.eye(2, batch_shape=[2]),
            layers.assign(np.array([[1, 2]], np.int64)),
            layers.assign(np.float32(4)),
            layers.assign([0.5]),
            layers.fill_constant([1], "int64", 2**60 + 1),
        ]
    found = built.run({"x": np.zeros((3, 2), np.float32)}, *outs)
    assert [one.tolist() for one in found] == [
        [0, 0],
        [[1, 1]],
        [[0, 0]] * 3,
        [[1, 1]] * 3,
        [[7]] * 3,
        [[7, 7, 7]],
        [0, 2, 4],
        [0, 0.5, 1],
        [[[1, 0], [0, 1]]] * 2,
        [[1, 2]],
        [4],
        [0.5],
        [2**60 + 1],
    ]
    assert [str(one.dtype) for one in found] == [one.dtype for one in outs]


def test_variables_that_outlive_a_run() -> None:
    with building() as built:
        counter = layers.create_global_var([1], 5, "int64", persistable=True, name="counter")
        before = layers.reshape(counter, [1, 1])
        layers.increment(counter, 2)
        scratch = layers.create_global_var([2], 1.5, "float32")
        made = layers.create_parameter([2, 2], "float32", name="w")
        layers.assign(np.array([9], np.int64), layers.create_global_var([1], 0, "int64", persistable=True, name="kept"))
        next_one = layers.increment(counter, in_place=False)
        with pytest.raises(UsageError, match="'fed_one' is fed and cannot be changed in place; use in_place=False"):
            layers.increment(fed("fed_one", [1]))
        with pytest.raises(
            UsageError, match=r"output 'counter' is int64 of shape \[1\] and cannot take float64 of \[2\]"
        ):
            layers.assign(np.zeros(2), counter)
    built.start()
    assert made.name == "w"
    for step in (1, 2):
        found = built.run({}, before, counter, next_one, scratch)
        # What was made of the counter before it grew keeps its value.
        assert [one.tolist() for one in found] == [[[3 + 2 * step]], [5 + 2 * step], [6 + 2 * step], [1.5, 1.5]]
    assert built["kept"].tolist() == [9]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: layers.reshape(x, [5, 7]), r"X 'x' of shape \[6, 4\] cannot be reshaped to \[5, 7\]"),
        (lambda x: layers.transpose(x, [0, 0]), r"perm must name each dimension .* once, got \[0, 0\]"),
        (lambda x: layers.squeeze(x, [1]), r"has more than one element along axes \[1\]"),
        (lambda x: layers.unsqueeze(x, [0, 0]), r"axes must be different"),
        (lambda x: layers.concat([x, layers.transpose(x, [1, 0])], 0), "differ not only in axis 0"),
        (lambda _: layers.concat([], 0), "input must hold at least one"),
        (lambda x: layers.concat([x], 2), "axis must be between -2 and 1 for 2 dimensions, got 2"),
        (lambda x: layers.split(x, 5), "cannot be split along dimension 1 into 5 parts"),
        (lambda x: layers.split(x, [1, 2], 1), r"cannot be split along dimension 1 into \[1, 2\] parts"),
        (lambda x: layers.split(x, 0), "num_or_sections must be"),
        (lambda x: layers.slice(x, [1], [4], [9]), "lies in 4:9 of axis 1"),
        (lambda x: layers.slice(x, [0, 1], [0], [1]), "must be as many, got 2, 1 and 1"),
        (lambda x: layers.stack([x, layers.transpose(x, [1, 0])]), "what is stacked must be alike"),
        (lambda x: layers.unstack(x, 5), "axis must be between -2 and 1, got 5"),
        (lambda x: layers.expand(x, [2]), "expand_times must be"),
        (lambda x: layers.pad(x, [1]), "paddings must be two counts"),
        (lambda x: layers.crop(x, [7, 1]), "does not lie in X 'x'"),
        (lambda x: layers.reduce_sum(x, 2), "dim must be between"),
        (lambda x: layers.reduce_all(x), "must be bool, got float32"),
        (lambda x: layers.clip(x, 1, 0), "min must not be above max"),
        (lambda x: layers.clip_by_norm(x, 0), "max_norm must be > 0"),
        (lambda x: layers.topk(x, 5), "k must be between 1 and the last size"),
        (lambda x: layers.argmax(x, 3), "axis must be between"),
        (lambda x: layers.one_hot(x, 3), "must be int16 or int32"),
        (lambda x: layers.gather(x, layers.zeros([2, 2], "int64")), r"Index .* must have shape \[n\] or \[n, 1\]"),
        (lambda _: layers.range(0, 5, -1, "int64"), "a step of -1 does not lead from 0 to 5"),
        (lambda x: layers.cumsum(x, 4), "axis must be between"),
        (lambda x: layers.sums([x, x], x), "out 'x' is also an input"),
        (lambda x: layers.assign(x, x), "out 'x' is also an input"),
        (lambda x: layers.equal(x, x, x), "out 'x' is also an input"),
        (lambda x: layers.reduce_sum(layers.equal(x, x)), "must be bfloat16 or float16"),
        (lambda _: layers.create_parameter([1], "float32", "a", "b"), "name is 'a' and that of attr is 'b'"),
        (lambda _: layers.mean(layers.zeros([2], "int64")), "must be bfloat16 or float16"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_found_while_building(build: Callable[[Variable], Any], message: str) -> None:
    with building(), pytest.raises(UsageError, match=rf"test_tensor_ops.py:\d+: .*{message}"):
        build(fed("x", [6, 4]))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: layers.reshape(x, [-1], actual_shape=x),
        lambda x: layers.topk(x, layers.zeros([1], "int64")),
        lambda _: layers.range(0, layers.zeros([1], "int64"), 1, "int64"),
    ],
)
def test_what_is_not_built_says_so(build: Callable[[Variable], Any]) -> None:
    with building(), pytest.raises(NotSupportedError):
        build(fed("x", [6, 4]))


def test_whole_numbers_stay_whole_within_bounds() -> None:
    with building() as built:
        x = fed("x", [-1], "int64")
        made = [layers.clip(x, *bounds) for bounds in ((0.5, 9.5), (-float("inf"), 3), (-float("inf"), float("inf")))]
    found = built.run({"x": np.array([-5, 4, 50])}, *made)
    assert [one.dtype for one in found] == [np.int64] * 3
    assert [one.tolist() for one in found] == [[1, 4, 9], [-5, 3, 3], [-5, 4, 50]]
