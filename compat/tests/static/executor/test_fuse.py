"""Fused operators: the same numbers as without them, where they may be and where they must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native
from fleet.errors import UsageError
from fleet_programs import layers, optimizer
from fleet_programs.executor import fuse
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import Scope
from fleet_programs.layers.io import fed
from fleet_programs.parameters import regularizer
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.program.variable import Variable
from program_support.programs import Built, building

SGD = {"fused_mul_sgd", "fused_bias_sgd"}
ALL = {"fused_fc", "fused_mean_loss", "fused_softmax_loss_grad", *SGD}


@contextmanager
def unfused() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse, "PASSES", ())
        yield


def fused_ops(exe: Executor) -> set[str]:
    """Types of fused operators in what was compiled last."""
    ops = list(exe._steps.values())[-1].step.ops
    return {op.type for op in ops if op.type.startswith("fused_")}


def train(
    built: Built, feed: dict[str, Any], fetches: Sequence[Any], num_steps: int = 3
) -> tuple[Any, Scope, set[str]]:
    """What some steps fetch, what they leave in a scope, and which fused operators they were made of."""
    exe, scope = Executor(), Scope()
    scope.tensors.update({name: tensor.clone() for name, tensor in built.scope.tensors.items()})
    values = [[one.copy() for one in exe.run(built.main, feed, fetches, scope)] for _ in range(num_steps)]
    return values, scope, fused_ops(exe)


def equal(built: Built, feed: dict[str, Any], fetches: Sequence[Any]) -> set[str]:
    """Train with and without fusing, compare everything; the fused operators there were."""
    built.start()
    values, scope, ops = train(built, feed, fetches)
    with unfused():
        plain_values, plain_scope, none = train(built, feed, fetches)
    assert not none
    for step, plain in zip(values, plain_values, strict=True):
        for one, other in zip(step, plain, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)
    for name, tensor in scope.tensors.items():
        np.testing.assert_allclose(tensor, plain_scope.tensors[name], rtol=2e-6, atol=1e-6)
    return ops


def batch(rows: int, columns: int, classes: int, dtype: str = "float32", ignored: int | None = None) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    labels = rng.integers(0, classes, (rows, 1))
    if ignored is not None:
        labels[:: max(rows // 2, 1)] = ignored
    return {"x": rng.normal(size=(rows, columns)).astype(dtype), "y": labels}


def classifier(
    sizes: Sequence[int] = (3,),
    act: str | None = "tanh",
    *,
    dtype: str = "float32",
    has_bias: bool = True,
    ignore: int = -100,
    minimize: Callable[[Variable], Any] | None = None,
) -> tuple[Built, Variable, dict[str, Variable]]:
    """A small MLP with SGD; its loss and what is on the way to it."""
    with building() as built:
        built.startup.random_seed = 5
        x, y = fed("x", [-1, 4], dtype), fed("y", [-1, 1], "int64")
        hidden = x
        for size in sizes:
            hidden = layers.fc(hidden, size, act=act, bias_attr=None if has_bias else False)
        guess = layers.fc(hidden, 3, act="softmax")
        rows = layers.cross_entropy(guess, y, ignore_index=ignore)
        loss = layers.mean(rows)
        (minimize or optimizer.SGD(0.1).minimize)(loss)
    return built, loss, {"hidden": hidden, "guess": guess, "rows": rows}


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), max_size=3),
    act=st.sampled_from(["relu", "tanh", "sigmoid", "gelu", None]),
    dtype=st.sampled_from(["float32", "float64"]),
    has_bias=st.booleans(),
    rows=st.integers(1, 9),
    ignored=st.sampled_from([None, -100, 0]),
    fetch=st.sampled_from([None, "hidden", "guess", "rows"]),
)
def test_a_random_classifier(
    sizes: list[int],
    act: str | None,
    dtype: str,
    has_bias: bool,
    rows: int,
    ignored: int | None,
    fetch: str | None,
) -> None:
    built, loss, middle = classifier(
        sizes, act, dtype=dtype, has_bias=has_bias, ignore=-100 if ignored is None else ignored
    )
    ops = equal(built, batch(rows, 4, 3, dtype, ignored), [loss, *([] if fetch is None else [middle[fetch]])])
    assert {"fused_fc", "fused_softmax_loss_grad", *SGD} <= ops
    assert ("fused_mean_loss" in ops) == (fetch != "rows")


def test_seed_000_is_fused_throughout() -> None:
    built, loss, _ = classifier([5, 5])
    assert equal(built, batch(8, 4, 3), [loss]) == ALL
    exe = Executor()
    exe.run(built.main, batch(8, 4, 3), [loss], scope=built.scope)
    types = [op.type for op in next(iter(exe._steps.values())).step.ops]
    assert types.count("fused_fc") == 3
    assert not {"mul", "elementwise_add", "tanh", "cross_entropy", "mean", "fill_constant", "sgd"} & set(types)


@pytest.mark.parametrize("fetched", ["fc_0.tmp_0", "fc_0.tmp_1"])
def test_what_is_fetched_is_not_fused_away(fetched: str) -> None:
    built, loss, _ = classifier(act="relu")
    exe = Executor()
    built.start()
    exe.run(built.main, batch(4, 4, 3), [loss, fetched], scope=built.scope)
    ops = [op.type for op in next(iter(exe._steps.values())).step.ops]
    assert ops.count("fused_fc") == (1 if fetched == "fc_0.tmp_0" else 2)
    equal(built, batch(4, 4, 3), [loss, fetched])


def test_a_gradient_that_is_fetched_is_made() -> None:
    built, loss, _ = classifier()
    ops = equal(built, batch(4, 4, 3), [loss, "fc_0.w_0@GRAD", "fc_0.b_0@GRAD", "fc_1.w_0@GRAD", "fc_1.b_0@GRAD"])
    assert ops == (ALL - SGD) | {"fused_sgd"}


def test_the_loss_need_not_be_fetched() -> None:
    built, _, _ = classifier()
    assert {"fused_softmax_loss_grad", "fused_fc"} <= equal(built, batch(4, 4, 3), [])


UPDATES: dict[str, tuple[Callable[[], Any], str]] = {
    "decay": (lambda: optimizer.SGD(0.1, regularization=regularizer.L2Decay(0.1)), "fused_sgd"),
    "l1": (lambda: optimizer.SGD(0.1, regularization=regularizer.L1Decay(0.1)), "fused_sgd"),
    "momentum": (lambda: optimizer.Momentum(0.1, 0.9), "fused_momentum"),
    "nesterov": (lambda: optimizer.Momentum(0.1, 0.9, use_nesterov=True), "fused_momentum"),
    "adam": (lambda: optimizer.Adam(0.1), "fused_adam"),
    "adamw": (lambda: optimizer.AdamW(0.1, weight_decay=0.1), "fused_adamw"),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_of_many_parameters_are_one(name: str) -> None:
    make, expected = UPDATES[name]
    built, loss, _ = classifier(minimize=lambda loss: make().minimize(loss))
    assert equal(built, batch(4, 4, 3), [loss]) == (ALL - SGD) | {expected}


def test_updates_that_differ_stay_apart() -> None:
    """Two rates, and a sparse gradient: each of its own; a parameter alone needs no joining."""
    with building() as built:
        rows = layers.embedding(fed("ids", [-1, 1], "int64"), [6, 4], is_sparse=True)
        slow = ParamAttr(learning_rate=0.1)
        hidden = layers.fc(rows, 3, param_attr=slow, bias_attr=None)
        loss = layers.mean(layers.square(hidden))
        optimizer.Momentum(0.1, 0.9).minimize(loss)
    assert equal(built, {"ids": np.array([[1], [5], [1]])}, [loss]) == {"fused_fc"}


@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize("fetched", [2, 1])
def test_two_means_of_one_loss(backward: bool, fetched: int) -> None:
    with building() as built:
        rows = layers.cross_entropy(layers.fc(fed("x", [-1, 4]), 3, act="softmax"), fed("y", [-1, 1], "int64"))
        means = [layers.mean(rows), layers.mean(rows)]
        if backward:
            optimizer.SGD(0.1).minimize(layers.elementwise_add(means[0], means[1]))
    equal(built, batch(5, 4, 3), means[:fetched])


def test_two_losses_of_one_softmax() -> None:
    with building() as built:
        guess = layers.fc(fed("x", [-1, 4]), 3, act="softmax")
        first, second = (layers.mean(layers.cross_entropy(guess, fed(name, [-1, 1], "int64"))) for name in ("y", "z"))
        optimizer.SGD(0.1).minimize(layers.elementwise_add(first, layers.scale(second, 0.3)))
    feed = batch(5, 4, 3)
    equal(built, {**feed, "z": 2 - feed["y"]}, [first, second])


@pytest.mark.parametrize("is_weighted", [True, False])
def test_a_loss_whose_gradient_is_no_constant(is_weighted: bool) -> None:
    with building() as built:
        rows = layers.cross_entropy(layers.fc(fed("x", [-1, 4]), 3, act="softmax"), fed("y", [-1, 1], "int64"))
        weighted = layers.elementwise_mul(rows, fed("weight", [-1, 1])) if is_weighted else rows
        loss = layers.scale(layers.mean(weighted), 0.5)
        optimizer.SGD(0.1).minimize(loss)
    weights = {"weight": np.linspace(0, 1, 5, dtype=np.float32)[:, None]} if is_weighted else {}
    ops = equal(built, {**batch(5, 4, 3), **weights}, [loss])
    assert "fused_softmax_loss_grad" in ops
    assert "fused_mean_loss" not in ops


def test_weights_that_two_layers_share() -> None:
    with building() as built:
        hidden = fed("x", [-1, 4])
        for _ in range(2):
            hidden = layers.fc(hidden, 4, act="tanh", param_attr="w", bias_attr="b")
        loss = layers.mean(layers.cross_entropy(layers.softmax(hidden), fed("y", [-1, 1], "int64")))
        optimizer.SGD(0.1).minimize(loss)
    assert equal(built, batch(5, 4, 4), [loss]) == (ALL - SGD) | {"fused_sgd"}


def test_a_weight_that_changes_before_its_bias_is_added() -> None:
    with building() as built:
        x, y = fed("x", [-1, 4]), fed("y", [-1, 1], "int64")
        product = layers.fc(x, 3, param_attr="w", bias_attr=False)
        weight = built.main.global_block().var("w")
        layers.assign(layers.scale(weight, 2.0), weight)
        bias = layers.create_parameter([3], "float32", name="b")
        loss = layers.mean(layers.cross_entropy(layers.softmax(layers.elementwise_add(product, bias)), y))
    assert "fused_fc" not in equal(built, batch(5, 4, 3), [loss])


@pytest.mark.parametrize("act", ["tanh", "relu"])
@pytest.mark.parametrize("shape", [[1], [3], [1, 3], [-1, 3]])
def test_only_a_bias_of_columns_is_fused(shape: list[int], act: str) -> None:
    with building() as built:
        out = layers.fc(fed("x", [-1, 4]), 3, bias_attr=False)
        bias = fed("bias", shape) if shape[0] < 0 else layers.create_parameter(shape, "float32", name="bias")
        loss = layers.mean(getattr(layers, act)(layers.elementwise_add(out, bias)))
        optimizer.SGD(0.1).minimize(loss)
    feed = {"x": batch(3, 4, 3)["x"], **({"bias": np.ones((3, 3), np.float32)} if shape[0] < 0 else {})}
    ops = equal(built, feed, [loss])
    assert ("fused_fc" in ops) == ("fused_bias_sgd" in ops) == (shape == [3])


def test_a_soft_label_is_not_fused() -> None:
    with building() as built:
        guess = layers.fc(fed("x", [-1, 4]), 3, act="softmax")
        loss = layers.mean(layers.cross_entropy(guess, fed("y", [-1, 3]), soft_label=True))
        optimizer.SGD(0.1).minimize(loss)
    feed = {"x": batch(3, 4, 3)["x"], "y": np.eye(3, dtype=np.float32)}
    assert equal(built, feed, [loss]) == {"fused_fc", *SGD}


@pytest.mark.parametrize("act", ["tanh", "gelu", None])
@pytest.mark.parametrize(("num_rows", "shape"), [(1, [2, 4]), (2, [2, 4]), (2, [3, 2, 4]), (3, [3, 2, 4])])
def test_more_dimensions_are_fused_too(act: str | None, num_rows: int, shape: list[int]) -> None:
    with building() as built:
        loss = layers.mean(layers.fc(fed("x", [-1, *shape]), 3, act=act, num_flatten_dims=num_rows))
        optimizer.SGD(0.1).minimize(loss)
    x = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    assert "fused_fc" in equal(built, {"x": x}, [loss])


def test_rows_without_labels_are_an_error() -> None:
    built, loss, middle = classifier()
    built.start()
    feed = batch(4, 4, 3)
    with pytest.raises(UsageError, match="there are 4 rows but 2 labels in this batch; feed as many of both$"):
        built.run({"x": feed["x"], "y": feed["y"][:2]}, loss)
    wrong = "cross_entropy: label [345] of 'y' is no class of 'fc_1.tmp_2', whose classes are 0 to 2; -100 is the"
    with pytest.raises(UsageError, match=wrong):
        built.run({"x": feed["x"], "y": feed["y"] + 3}, loss)
    assert built.run(feed, middle["guess"])[0].shape == (4, 3)


def test_a_probability_of_zero_trains_the_same_whatever_is_fetched() -> None:
    found = []
    for fetches in ([], ["guess"], ["guess", "slope"]):
        built, loss, middle = classifier(())
        built.start(fc_0__w_0=np.eye(4, 3, dtype=np.float32))
        slope = f"{middle['guess'].name}@GRAD"
        x, y = np.array([[200, -200, 0, 0], [0, 0, 1, 1]], np.float32), np.array([[1], [2]])
        first, *_ = built.run({"x": x, "y": y}, loss, *[slope if one == "slope" else middle[one] for one in fetches])
        assert np.isfinite(first).all()
        found.append(built["fc_0.w_0"])
    assert np.isfinite(found[0]).all()
    assert (found[0][0] != np.eye(4, 3)[0]).any()
    assert all((one == found[0]).all() for one in found)


def test_a_batch_without_rows_changes_nothing() -> None:
    built, loss, _ = classifier()
    built.start()
    before = built["fc_0.w_0"]
    (found,) = built.run(batch(0, 4, 3), loss)
    assert np.isnan(found).all()
    assert (built["fc_0.w_0"] == before).all()


def test_batches_of_changing_sizes() -> None:
    built, loss, _ = classifier()
    built.start()
    start = {name: tensor.clone() for name, tensor in built.scope.tensors.items()}
    found = [built.run(batch(rows, 4, 3), loss)[0] for rows in (5, 2, 5, 7)]
    built.scope.tensors.update(start)
    built.main.changed()
    with unfused():
        np.testing.assert_allclose(found, [built.run(batch(rows, 4, 3), loss)[0] for rows in (5, 2, 5, 7)], rtol=1e-5)


def test_native_tanh_is_as_exact_as_torch() -> None:
    special = [0.0, -0.0, 1e-30, 1e-8, 0.1, 0.5, 0.625, 4.9, 5.0, 9.0, 20.0, 88.0, 3e38, float("inf"), float("nan")]
    values = np.array([*special, *(-np.array(special)), *np.linspace(-10, 10, 4001)], np.float32)
    pad = -len(values) % 7
    matrix = np.concatenate([values, np.zeros(pad, np.float32)]).reshape(-1, 7)
    bias = np.linspace(-0.5, 0.5, 7, dtype=np.float32)
    for one in (np.zeros(7, np.float32), bias):
        made = matrix.copy()
        _native.add_bias_and_tanh(made, one)
        expected = torch.tanh(torch.from_numpy(matrix + one)).numpy()
        np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-30)
        assert (np.isnan(made) == np.isnan(expected)).all()
        assert (np.abs(made[~np.isnan(made)]) <= 1).all()


def test_a_layer_keeps_what_is_not_a_number() -> None:
    with building() as built:
        out = layers.fc(fed("x", [-1, 4]), 2, act="tanh")
    built.start()
    (found,) = built.run({"x": np.array([[1, 2, np.nan, 4], [1, 2, 3, 4]], np.float32)}, out)
    assert np.isnan(found).tolist() == [[True, True], [False, False]]
