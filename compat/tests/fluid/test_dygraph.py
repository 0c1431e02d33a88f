"""Imperative mode in the words of version 1.8: layers against torch's, modes, files, names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle import dygraph, mode
from fleet_paddle.fluid import layers
from fleet_paddle.imperative import nn
from fleet_programs import ParamAttr, default_main_program
from fleet_programs.parameters import initializer

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6)).astype(np.float32)
IMAGES = RNG.standard_normal((2, 4, 6, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def imperative_mode() -> Iterator[None]:
    with mode.guard():
        yield


def plain(value: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(value.numpy() if isinstance(value, torch.Tensor) else value).copy())


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


LAYERS: dict[str, tuple[Callable[[], Any], Callable[[Any, torch.Tensor], torch.Tensor], Any]] = {
    "Linear": (
        lambda: dygraph.Linear(6, 3, act="softmax"),
        lambda own, x: torch.softmax(x @ plain(own.weight) + plain(own.bias), -1),
        X,
    ),
    "Conv2D": (
        lambda: dygraph.Conv2D(4, 6, 3, stride=2, padding=1, groups=2, act="relu"),
        lambda own, x: F.conv2d(x, plain(own.weight), plain(own.bias), 2, 1, 1, 2).relu(),
        IMAGES,
    ),
    "Conv2DTranspose": (
        lambda: dygraph.Conv2DTranspose(4, 6, 3, stride=2, padding=1, groups=2, output_size=[12, 12]),
        lambda own, x: F.conv_transpose2d(x, plain(own.weight), plain(own.bias), 2, 1, 1, 2),
        IMAGES,
    ),
    "Pool2D": (
        lambda: dygraph.Pool2D(pool_size=3, pool_type="avg", pool_stride=2, pool_padding=1),
        lambda _, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        IMAGES,
    ),
    "Pool2D of all": (lambda: dygraph.Pool2D(global_pooling=True), lambda _, x: x.amax((2, 3), keepdim=True), IMAGES),
    "LayerNorm": (
        lambda: dygraph.LayerNorm([6, 6], True, True, act="tanh"),
        lambda own, x: F.layer_norm(x, [6, 6], plain(own.weight).view(6, 6)).tanh(),
        IMAGES,
    ),
    "GroupNorm": (lambda: dygraph.GroupNorm(4, 2), lambda _, x: F.group_norm(x, 2), IMAGES),
    "InstanceNorm": (lambda: dygraph.InstanceNorm(4), lambda _, x: F.instance_norm(x), IMAGES),
    "BatchNorm": (
        lambda: dygraph.BatchNorm(4, act="relu"),
        lambda _, x: F.batch_norm(x, None, None, training=True).relu(),
        IMAGES,
    ),
    "PRelu": (
        lambda: dygraph.PRelu("channel", 4, param_attr=initializer.Constant(0.3)),
        lambda _, x: F.leaky_relu(x, 0.3),
        IMAGES,
    ),
    "Flatten": (lambda: dygraph.Flatten(), lambda _, x: x.flatten(1), IMAGES),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_torchs_under_version_1_8s_arguments(name: str) -> None:
    make, of_torch, values = LAYERS[name]
    layer, x = make(), dygraph.to_variable(values)
    assert isinstance(layer, dygraph.Layer)
    x.stop_gradient = False
    other = torch.from_numpy(values.copy()).requires_grad_()
    made, wanted = layer(x), of_torch(layer, other)
    if wanted.shape != made.shape:
        made = layers.slice(made, [2, 3], [0, 0], [11, 11])  # output_size asked for one more
    same(made, wanted)
    (made * made).sum().backward()
    (wanted * wanted).sum().backward()
    assert other.grad is not None
    np.testing.assert_allclose(plain(x.grad), other.grad, rtol=1e-3, atol=1e-4)
    assert all(one.grad is not None for one in layer.parameters())


def test_batch_norm_keeps_the_biased_variance_under_1_8s_names() -> None:
    layer = dygraph.BatchNorm(4, momentum=0.8)
    assert sorted(layer.state_dict()) == ["_mean", "_variance", "bias", "weight"]
    layer(dygraph.to_variable(IMAGES))
    np.testing.assert_allclose(layer._mean.numpy(), 0.2 * IMAGES.mean((0, 2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer._variance.numpy(), 0.8 + 0.2 * IMAGES.var((0, 2, 3)), rtol=1e-4)
    layer.eval()
    x = torch.from_numpy(IMAGES)
    same(layer(dygraph.to_variable(IMAGES)), F.batch_norm(x, plain(layer._mean), plain(layer._variance)))


def test_embedding_and_a_gated_unit() -> None:
    layer = dygraph.Embedding(size=[8, 3], padding_idx=-1)
    rows = layer(dygraph.to_variable(np.array([[1], [7]])))
    assert rows.shape == [2, 1, 3]
    assert rows.numpy()[1].tolist() == [[0, 0, 0]]
    rows.sum().backward()
    assert layer.weight.gradient().sum(1).tolist() == [0, 3, *[0] * 6]
    unit, state = dygraph.GRUUnit(6), RNG.standard_normal((4, 2)).astype(np.float32)
    new, kept, gates = unit(dygraph.to_variable(X), dygraph.to_variable(state))
    x, h, weight = torch.from_numpy(X), torch.from_numpy(state), plain(unit.weight).flatten()
    update, reset = torch.sigmoid(x[:, :4] + h @ weight[:8].view(2, 4)).chunk(2, 1)
    candidate = torch.tanh(x[:, 4:] + (reset * h) @ weight[8:].view(2, 2))
    same(kept, reset * h)
    same(new, (1 - update) * h + update * candidate)
    same(gates, torch.cat([update, reset, candidate], 1))
    made = layers.gru_unit(x, h, 6, param_attr=unit.weight, bias_attr=unit.bias)
    for ours, theirs in zip((new, kept, gates), made, strict=True):
        same(ours, plain(theirs))
    with pytest.raises(UsageError, match="size must be 3 times the width"):
        dygraph.GRUUnit(7)


def untyped(value: Any) -> Any:
    return value


class Net(dygraph.Layer):
    """A net as a script has it."""

    def __init__(self) -> None:
        super().__init__("net")
        self.fc = dygraph.Linear(6, 2, param_attr=ParamAttr(name="of_net", initializer=initializer.MSRA()))
        self.drop = dygraph.Dropout(0.5)
        self.parts = dygraph.LayerList([dygraph.Linear(2, 2), dygraph.Linear(2, 2)])

    def forward(self, x: Any) -> Any:
        return layers.dropout(self.drop(self.fc(x)), 0.5)


def test_a_net_of_a_script(tmp_path: Path) -> None:
    net = Net()
    assert [net.fc.weight.name, net.fc.bias.name] == ["of_net", "linear_0.b_0"]
    x = dygraph.to_variable(X, name="x")
    assert x.name == "x"
    net.eval()
    assert not mode.is_training()
    same(net(x), plain(net.fc(x)) * 0.25)
    net.train()
    assert mode.is_training()
    nn.Linear(1, 1).eval()  # a layer of 2.0 has the same word
    same(layers.dropout(x, 0.5), torch.from_numpy(X) * 0.5)
    torch.nn.Sequential(net).train()
    assert mode.is_training()
    assert len({net(x).numpy().tobytes() for _ in range(20)}) > 1, "other values are dropped each time"
    dygraph.save_dygraph(net.state_dict(), tmp_path / "net")
    values, state = dygraph.load_dygraph(tmp_path / "net")
    assert state is None
    assert values is not None
    other = Net()
    other.load_dict(values)
    np.testing.assert_array_equal(other.fc.weight.numpy(), net.fc.weight.numpy())
    other(x).sum().backward()
    assert other.fc.weight.gradient() is not None
    other.clear_gradients()
    assert other.fc.weight.gradient() is None
    with pytest.raises(UsageError, match="there is neither"):
        dygraph.load_dygraph(tmp_path / "other")
    holder = dygraph.Sequential(("a", dygraph.Linear(6, 2)), ("b", dygraph.Linear(2, 1)))
    assert holder(x).shape == [4, 1]
    assert isinstance(holder, nn.Sequential)
    assert dygraph.Linear(1, 1, dtype="float64").weight.dtype is torch.float64


def test_a_guard_counts_names_from_the_start_and_leaves_nothing() -> None:
    outside = default_main_program()
    with mode.guard():
        assert dygraph.Linear(1, 1).weight.name == "linear_0.w_0"
        assert mode.is_dynamic()
        Net().eval()
    assert mode.is_training()
    assert default_main_program() is outside


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: dygraph.Linear(1, 1, act="rilu"), UsageError, "Linear: there is no activation 'rilu'; use relu"),
        (lambda: dygraph.Linear(1, 1, act="conv2d"), UsageError, "Linear: there is no activation 'conv2d'"),
        (
            lambda: dygraph.Conv2D(untyped("conv"), 2, 3),
            UsageError,
            "num_channels must be a whole .* no longer begin with a name",
        ),
        (lambda: dygraph.Conv2D(3, 4, 3, groups=2), UsageError, "groups must divide num_channels, got 2 for 3"),
        (lambda: dygraph.Embedding(untyped(8)), UsageError, r"size must be \[ids, width\], got 8"),
        (lambda: dygraph.Embedding([8, 2], is_distributed=True), NotSupportedError, "is_distributed is for programs"),
        (lambda: dygraph.Pool2D(2, "median"), UsageError, "pool_type must be 'max' or 'avg', got 'median'"),
        (lambda: dygraph.PRelu("element"), UsageError, "'element' with input_shape="),
        (lambda: dygraph.Dropout(dropout_implementation="none"), UsageError, "must be downgrade_in_infer or upscale"),
        (lambda: dygraph.BatchNorm(4, param_attr=False), UsageError, "BatchNorm: param_attr and bias_attr must not"),
    ],
)
def test_mistakes_are_named(make: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
