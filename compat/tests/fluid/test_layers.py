"""Layers of version 1.8 on tensors: the values and gradients that their programs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_paddle import mode
from fleet_paddle.dygraph import to_variable
from fleet_paddle.fluid import layers as L  # noqa: N812 - as scripts call it
from fleet_paddle.fluid import rates
from fleet_programs.definition.registry import definition
from fleet_programs.operators import known

RNG = np.random.default_rng(0)
X, Y = (RNG.random((2, 4, 6)) * 0.8 + 0.1).astype(np.float32)
IDS = np.array([[0], [2], [5], [1]])
IMAGES = RNG.standard_normal((2, 4, 6, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def imperative() -> Iterator[None]:
    with mode.guard():
        yield


def column(x: Any, at: int = 0) -> Any:
    return L.slice(x, [1], [at], [at + 1])


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{
        name: lambda x, _y, _ids, name=name: getattr(L, name)(x)  # type: ignore[misc]
        for name in (
            *("cumsum", "elu", "gelu", "hard_swish", "leaky_relu", "log_softmax", "logsigmoid", "mean", "reduce_max"),
            *("reduce_mean", "reduce_prod", "reduce_sum", "relu", "relu6", "round", "softmax", "softplus", "sqrt"),
            *("swish", "tanh", "zeros_like"),
        )
    },
    **{
        name: lambda x, y, _ids, name=name: getattr(L, f"elementwise_{name}")(x, y, act="tanh")  # type: ignore[misc]
        for name in ("add", "div", "max", "mul", "pow", "sub")
    },
    "laid along an axis": lambda x, y, _: L.elementwise_add(x, L.reduce_sum(y, dim=1), axis=0),
    "matmul": lambda x, y, _: L.matmul(x, y, transpose_y=True, alpha=2.0),
    "mul": lambda x, y, _: L.mul(x, L.transpose(y, [1, 0])),
    "scale": lambda x, _y, _ids: L.scale(x, 2.0, 1.0, bias_after_scale=False),
    "sums": lambda x, y, _: L.sums([x, y, x]),
    "clip": lambda x, _y, _ids: L.clip(x, 0.2, 0.5),
    "cast": lambda x, _y, _ids: L.cast(x, "float64"),
    "topk": lambda x, _y, _ids: L.topk(x, 2)[0],
    "one_hot": lambda _x, _y, ids: L.one_hot(ids, 6),
    "one_hot_v2": lambda _x, _y, ids: L.one_hot_v2(ids, 6),
    "cross_entropy": lambda x, _y, ids: L.cross_entropy(L.softmax(x), ids),
    "soft labels": lambda x, y, _: L.softmax_with_cross_entropy(x, y, soft_label=True, return_softmax=True)[0],
    "softmax_with_cross_entropy": lambda x, _y, ids: L.softmax_with_cross_entropy(x, ids),
    "sigmoid_cross_entropy": lambda x, y, _: L.sigmoid_cross_entropy_with_logits(x, y),
    "square_error_cost": lambda x, y, _: L.square_error_cost(x, y),
    "smooth_l1": lambda x, y, _: L.smooth_l1(x, y),
    "log_loss": lambda x, y, _: L.log_loss(column(x), column(y)),
    "cos_sim": lambda x, y, _: L.cos_sim(x, y),
    "accuracy": lambda x, _y, ids: L.accuracy(x, ids, 2),
    "dropout": lambda x, _y, _ids: L.dropout(x, 0.5, seed=3),
    "concat": lambda x, y, _: L.concat([x, y], axis=1),
    "expand": lambda x, _y, _ids: L.expand(x, [1, 2]),
    "pad": lambda x, _y, _ids: L.pad(x, [0, 1, 1, 0], 0.5),
    "reshape": lambda x, _y, _ids: L.reshape(x, [0, -1, 2], act="tanh"),
    "slice": lambda x, _y, _ids: L.slice(x, [0, 1], [1, -2], [3, 6]),
    "assign": lambda x, _y, _ids: L.assign(x),
    "flatten": lambda x, _y, _ids: L.flatten(L.reshape(x, [2, 2, 6]), axis=2),
    "gather": lambda x, _y, ids: L.gather(x, L.slice(ids, [0], [0], [2])),  # rows 0 and 2
    "squeeze": lambda x, _y, _ids: L.squeeze(L.reshape(x, [4, 1, 6]), [1]),
    "split": lambda x, _y, _ids: L.split(x, [2, -1], dim=1)[1],
    "stack": lambda x, y, _: L.stack([x, y], axis=1),
    "unstack": lambda x, _y, _ids: L.unstack(L.unsqueeze(x, [1]), axis=2)[2],
    "fill_constant_batch_size_like": lambda x, _y, _ids: L.fill_constant_batch_size_like(x, [-1, 3], "float32", 2.0),
    "label_smooth": lambda x, _y, _ids: L.label_smooth(x, epsilon=0.1),
    "l2_normalize": lambda x, _y, _ids: L.l2_normalize(x, 1),
    "layer_norm": lambda x, _y, _ids: L.layer_norm(x, scale=False, shift=False),
    "glu": lambda x, _y, _ids: L.glu(x),
    "attention": lambda x, y, _: L.scaled_dot_product_attention(*(L.reshape(one, [2, 2, 6]) for one in (x, y, y))),
}
ON_IMAGES: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: L.pool2d(x, 2, "max", 2),
    "avg": lambda x: L.pool2d(x, 3, "avg", 2, 1, ceil_mode=True),
    "global": lambda x: L.pool2d(x, global_pooling=True, pool_type="avg"),
    "adaptive": lambda x: L.adaptive_pool2d(x, 3, "avg"),
    "uneven": lambda x: L.pool2d(x, 2, "avg", 2, [0, 1, 1, 0]),
    "volumes": lambda x: L.pool3d(L.unsqueeze(x, [1]), 2, "max", 2),
    "lrn": lambda x: L.lrn(x),
}


def expected(call: Callable[..., Any], *values: Any) -> list[Any]:
    """What a program gives: the result, and the gradients of its elements times 1, 2, ..."""
    mode.enable_static()
    with static.scope_guard(static.Scope()):
        given = [static.data(f"v{i}", list(one.shape), str(one.dtype)) for i, one in enumerate(values)]
        for one in given:
            one.stop_gradient = one.dtype != "float32"
        made = call(*given)
        weights = static.layers.assign((np.arange(np.prod(made.shape)) + 1).reshape(made.shape).astype(made.dtype))
        grads = []
        if made.dtype.startswith("float"):
            grads = static.gradients(static.layers.reduce_sum(made * weights), given[:-1] if len(given) > 1 else given)
        feed = {f"v{i}": one for i, one in enumerate(values)}
        fetches = [made, *(one for one in grads if one is not None)]
        found = iter(static.Executor(static.CPUPlace()).run(feed=feed, fetch_list=fetches))
    mode.disable_static()
    return [next(found), *(None if one is None else next(found) for one in grads)]


def compare(call: Callable[..., Any], *values: Any) -> None:
    wanted, *grads = expected(call, *values)
    for _ in range(2):  # built, then known
        given = [to_variable(one) for one in values]
        for one in given:
            one.stop_gradient = not one.is_floating_point()
        made = call(*given)
        assert type(made).__name__ == "Tensor"
        assert made.shape == list(wanted.shape)
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-5, atol=1e-6)
        assert made.numpy().dtype == wanted.dtype
        if made.requires_grad:
            (made * torch.arange(1, made.numel() + 1, dtype=made.dtype).view(*made.shape)).sum().backward()
        for one, grad in zip(given, grads, strict=False):
            found = one.gradient()
            np.testing.assert_allclose(0 if found is None else found, 0 if grad is None else grad, 1e-4, 1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_tensors_have_the_values_and_gradients_of_programs(name: str) -> None:
    compare(CALLS[name], X, Y, IDS)


@pytest.mark.parametrize("name", ON_IMAGES)
def test_images_too(name: str) -> None:
    compare(ON_IMAGES[name], IMAGES)


def test_every_gradient_that_autograd_finds_too_is_compared() -> None:
    mode.enable_static()
    main = static.Program()
    with static.program_guard(main, static.Program()):
        values = [static.data(f"v{i}", list(one.shape), str(one.dtype)) for i, one in enumerate((X, Y, IDS, IMAGES))]
        for call in CALLS.values():
            call(*values[:3])
        for on_images in ON_IMAGES.values():
            on_images(values[3])
    compared = {op.type for op in main.global_block().ops}
    marked = {one.grad_of for one in map(definition, known()) if one.as_autograd}
    weighted = {"conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"}  # as layers of dygraph
    assert marked - compared == weighted
    assert all(definition(f"{name}_grad").make is not None for name in marked)


def test_what_makes_tensors_goes_by_the_mode() -> None:
    made = [
        L.zeros([2], "int64"),
        L.ones([2], "float32"),
        L.fill_constant([2], "float32", 3.0),
        L.range(0, 4, 2, "int64"),
    ]
    assert [one.numpy().tolist() for one in made] == [[0, 0], [1, 1], [3, 3], [0, 2]]
    assert L.fill_constant([to_variable(np.array([2])), 1], "float32", 1).shape == [2, 1]
    assert L.eye(2, batch_shape=[3]).shape == [3, 2, 2]
    assert L.assign(X).numpy().tolist() == X.tolist()
    assert L.assign([1.0]).dtype is torch.float32
    assert L.create_parameter([2, 3], "float32").trainable
    assert L.uniform_random([50], min=2.0, max=3.0, seed=1).numpy().min() >= 2
    assert L.gaussian_random([50], std=0.0, mean=4.0).numpy().tolist() == [4.0] * 50
    assert isinstance(L.piecewise_decay([1], [0.1, 0.2]), rates.PiecewiseDecay)
    mode.enable_static()
    assert isinstance(L.zeros([2]), static.Variable)
    assert isinstance(L.relu(to_variable(X)), torch.Tensor)


def test_what_is_written_to() -> None:
    counter, total = to_variable(np.array([1.0], np.float32)), to_variable(np.zeros_like(X))
    assert L.increment(counter) is counter
    assert L.sums([to_variable(X), to_variable(X)], out=total) is total
    np.testing.assert_allclose(total.numpy(), 2 * X)
    assert L.fill_constant([1], "float32", 5.0, out=counter) is counter
    assert float(counter) == 5


def test_settings_may_be_tensors_and_results_are_tensors_of_their_own() -> None:
    x = to_variable(X)
    assert L.topk(x, k=to_variable(np.array([2])))[1].shape == [4, 2]
    assert L.slice(x, [0], [to_variable(np.array([1]))], [3]).shape == [2, 6]
    assert L.reshape(x, to_variable(np.array([2, 12]))).shape == [2, 12]
    same = L.cast(x, "float32")
    assert same is not x
    same.stop_gradient = False
    assert x.stop_gradient


def test_dropout_goes_by_the_last_word_on_training() -> None:
    x = to_variable(X)
    mode.set_training(False)
    np.testing.assert_allclose(L.dropout(x, 0.25).numpy(), X * 0.75, rtol=1e-6)
    np.testing.assert_allclose(L.dropout(x, 0.25, dropout_implementation="upscale_in_train").numpy(), X)
    mode.set_training(True)
    assert set(np.unique(L.dropout(L.ones([1000], "float32"), 0.25).numpy())) == {0.0, 1.0}
    assert not np.array_equal(*(L.dropout(L.ones([1000], "float32"), 0.5).numpy() for _ in range(2)))


def test_round_goes_away_from_zero() -> None:
    given = np.array([-2.5, -0.5, -0.4, 0.5, 1.4, 2.5, np.inf], np.float32)
    assert L.round(to_variable(given)).tolist() == [-3, -1, 0, 1, 1, 3, np.inf]
    assert np.array_equal(expected(L.round, given)[0], L.round(to_variable(given)).numpy())


def _twice(call: Callable[[Any], Any], x: Any) -> Any:
    y = torch.clone(x).requires_grad_()
    (grad,) = torch.autograd.grad(call(y).sum(), y, create_graph=True)
    assert grad.any()  # what is asked for once is there
    (grad * grad).sum().backward()


def test_gradients_of_gradients() -> None:
    x = to_variable(X)
    x.stop_gradient = False
    (grad,) = torch.autograd.grad(L.gelu(L.leaky_relu(x)).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(grad.sum(), x)
    y = torch.from_numpy(X).requires_grad_()
    (grad,) = torch.autograd.grad(F.gelu(F.leaky_relu(y, 0.02)).sum(), y, create_graph=True)
    assert torch.allclose(found, torch.autograd.grad(grad.sum(), y)[0], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: L.fc(x, 3), NotSupportedError, r"fc makes variables that last, .*; use fluid.dygraph.Linear\(input"),
        (lambda x: L.auc(x, x), UsageError, "auc"),
        (
            lambda x: L.auc(L.softmax(x)[:, :2], to_variable(IDS)),
            NotSupportedError,
            r"auc .*; use fluid.metrics.Auc\(name",
        ),
        (lambda x: _twice(lambda y: L.sigmoid_cross_entropy_with_logits(y, x), x), NotSupportedError, "twice"),
        (
            lambda _: L.relu(X),
            UsageTypeError,
            r"relu takes tensors here; make one of an array with to_variable\(array\)",
        ),
        (lambda x: L.matmul(x, x), UsageError, r"test_layers.py:\d+: matmul: X 'x0' of shape \[4, 6\]"),
        (lambda x: L.elementwise_add(x, x, act="rilu"), UsageError, "there is no activation 'rilu'"),
        (lambda x: L.concat([x, to_variable(IDS)]), UsageError, "concat"),
        (lambda _: L.data("x", [3]), UsageTypeError, "data takes tensors here"),
    ],
)
def test_mistakes_are_named(call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(to_variable(X))
