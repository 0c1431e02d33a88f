"""Layers and losses of the imperative mode equal torch's, forward and backward, and hold their parameters as told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

import fleet_paddle.imperative as paddle
from fleet.errors import UsageError
from fleet_paddle.imperative import nn, state


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.rest = nn.Sequential(("act", nn.Tanh()), ("last", nn.Linear(3, 1, bias_attr=False)))
        self.scale = self.create_parameter([1], default_initializer=nn.initializer.Constant(2.0))
        self.register_buffer("seen", paddle.zeros([1]))

    def forward(self, x: Any) -> Any:
        return self.rest(self.first(x)) * self.scale


def test_a_layer_is_a_module_with_other_names() -> None:
    net = Net()
    assert isinstance(net.parameters(), list)
    assert [list(one.shape) for one in net.parameters()] == [[1], [4, 3], [3], [3, 1]]
    assert [list(one.shape) for one in net.parameters(include_sublayers=False)] == [[1]]
    assert len(net.sublayers()) == 4
    assert [name for name, _ in net.named_sublayers()] == ["first", "rest", "rest.act", "rest.last"]
    assert sorted(net.state_dict()) == ["first.bias", "first.weight", "rest.last.weight", "scale", "seen"]
    assert net.full_name() != Net().full_name()
    assert Net().full_name().startswith("net_")
    assert (net.first.weight.name or "").startswith("linear_")
    assert net.add_sublayer("more", nn.ReLU()) is net.more
    assert net.add_parameter("shift", paddle.create_parameter([1])) is net.shift
    assert net.rest["act"] is net.rest[0]
    assert len(net.rest) == 2
    assert isinstance(net, torch.nn.Module)
    net.eval()
    assert not net.rest.training


def test_a_hook_after_forward_may_replace_what_came_out() -> None:
    net = Net()
    before = net(paddle.ones([1, 4]))
    hook = net.register_forward_post_hook(lambda _layer, _inputs, outputs: outputs + 1)
    torch.testing.assert_close(net(paddle.ones([1, 4])), before + 1)
    hook.remove()
    torch.testing.assert_close(net(paddle.ones([1, 4])), before)


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Linear(4, 2), lambda: nn.BatchNorm1D(4), lambda: nn.Sequential(Net(), nn.LayerNorm(1))],
)
def test_layers_have_the_type_of_new_floats(make: Callable[[], Any]) -> None:
    with state.guard():
        paddle.set_default_dtype("float64")
        assert make()(paddle.randn([3, 4])).dtype is torch.float64
    assert paddle.get_default_dtype() == "float32"


def test_a_state_goes_from_one_to_another() -> None:
    one, other = Net(), Net()
    other.set_state_dict({name: value.numpy() for name, value in one.state_dict().items()})
    x = paddle.randn([2, 4])
    np.testing.assert_array_equal(one(x).numpy(), other(x).numpy())
    with pytest.warns(UserWarning, match="first.weight is not given; .*head is not part of the layer; seen has shape"):
        other.set_dict({"scale": np.ones(1), "head": np.ones(2), "seen": np.ones(3)})
    assert float(other.scale) == 1


def test_lists_of_layers_and_parameters() -> None:
    layers = nn.LayerList([nn.Linear(1, 2), nn.Linear(2, 3)])
    layers.append(nn.ReLU())
    assert len(layers) == 3
    assert len(layers.parameters()) == 4
    parameters = nn.ParameterList([paddle.create_parameter([2]) for _ in range(3)])
    assert len(parameters.parameters()) == 3
    assert type(parameters[0]) is paddle.Parameter


def test_attributes_say_how_a_parameter_begins() -> None:
    attr = paddle.ParamAttr(name="mine", initializer=nn.initializer.Assign(np.eye(2)), trainable=False)
    layer = nn.Linear(2, 2, weight_attr=attr, bias_attr=nn.initializer.Constant(3.0))
    np.testing.assert_array_equal(layer(paddle.zeros([1, 2])).numpy(), [[3, 3]])
    assert layer.weight.name == "mine"
    assert layer.weight.stop_gradient
    assert nn.Linear(2, 2, bias_attr=False).bias is None
    with pytest.raises(UsageError, match="weight_attr must not be False"):
        nn.Linear(2, 2, weight_attr=False)


@pytest.mark.parametrize(
    ("initializer", "spread"),
    [
        (nn.initializer.XavierUniform(), (6 / 300) ** 0.5 / 3**0.5),
        (nn.initializer.XavierNormal(), (2 / 300) ** 0.5),
        (nn.initializer.KaimingUniform(), (6 / 100) ** 0.5 / 3**0.5),
        (nn.initializer.KaimingNormal(), (2 / 100) ** 0.5),
        (nn.initializer.Normal(mean=0.0, std=0.5, name="n"), 0.5),
        (nn.initializer.TruncatedNormal(mean=0.0, std=0.5, name="n"), 0.44),
        (nn.initializer.Uniform(-1.0, 1.0, seed=3), 3**-0.5),
    ],
)
def test_initialisers_spread_as_they_say(initializer: Any, spread: float) -> None:
    values = paddle.create_parameter([100, 200], default_initializer=initializer).numpy()
    assert values.std() == pytest.approx(spread, rel=0.03)
    assert abs(values.mean()) < 0.02


def pair(shape: list[int], ints: int = 0) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(1)
    plain = torch.randint(ints, shape) if ints else torch.randn(shape, dtype=torch.float64, requires_grad=True)
    ours = paddle.to_tensor(plain.detach().clone(), stop_gradient=bool(ints))
    return ours, plain


LABELS = torch.tensor([2, 0, -100, 1])
ONES = torch.ones(3, dtype=torch.float64)


def row_losses(x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, LABELS, reduction="none")[:, None]


def normed(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x.float(), None, None, training=True)


@pytest.mark.parametrize(
    ("ours", "plain", "shape"),
    [
        (nn.ReLU(), F.relu, [3, 4]),
        (nn.Tanh(), torch.tanh, [3, 4]),
        (nn.Sigmoid(), torch.sigmoid, [3, 4]),
        (nn.GELU(), F.gelu, [3, 4]),
        (nn.GELU(approximate=True), lambda x: F.gelu(x, approximate="tanh"), [3, 4]),
        (nn.LeakyReLU(0.2), lambda x: F.leaky_relu(x, 0.2), [3, 4]),
        (nn.ELU(0.5), lambda x: F.elu(x, 0.5), [3, 4]),
        (nn.Softplus(), F.softplus, [3, 4]),
        (nn.Swish(), F.silu, [3, 4]),
        (nn.Hardsigmoid(), F.hardsigmoid, [3, 4]),
        (nn.Softmax(axis=0), lambda x: F.softmax(x, 0), [3, 4]),
        (nn.LogSoftmax(), lambda x: F.log_softmax(x, -1), [3, 4]),
        (nn.Flatten(), lambda x: x.flatten(1), [2, 3, 4]),
        (nn.MaxPool2D(2), lambda x: F.max_pool2d(x, 2), [1, 2, 4, 4]),
        (nn.AvgPool2D(3, 1, 1), lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), [1, 2, 4, 4]),
        (nn.AdaptiveAvgPool2D(2), lambda x: F.adaptive_avg_pool2d(x, 2), [1, 2, 5, 5]),
        (nn.Dropout(0.0), lambda x: x, [3, 4]),
        (nn.Dropout(0.5, mode="downscale_in_infer").eval(), lambda x: x * 0.5, [3, 4]),
        (lambda x: nn.MSELoss()(x, torch.ones(3, 4)), lambda x: (x - 1).square().mean(), [3, 4]),
        (lambda x: nn.MSELoss("sum")(x, torch.ones(3, 1)), lambda x: (x - 1).square().sum(), [3, 4]),
        (lambda x: nn.L1Loss("none")(x, torch.ones(3, 4)), lambda x: (x - 1).abs(), [3, 4]),
        (lambda x: nn.SmoothL1Loss()(x, ONES), lambda x: F.smooth_l1_loss(x, ONES), [3]),
        (lambda x: nn.CrossEntropyLoss()(x, LABELS), lambda x: F.cross_entropy(x, LABELS), [4, 3]),
        (lambda x: nn.CrossEntropyLoss(reduction="none")(x, LABELS[:, None]), row_losses, [4, 3]),
        (
            lambda x: nn.CrossEntropyLoss(soft_label=True)(x, torch.full((4, 3), 1 / 3)),
            lambda x: -F.log_softmax(x, 1).mean(1).mean(),
            [4, 3],
        ),
        (
            lambda x: nn.functional.cross_entropy(x, torch.full((4, 3), 1 / 3), soft_label=True, reduction="none"),
            lambda x: -F.log_softmax(x, 1).mean(1, keepdim=True),
            [4, 3],
        ),
        (
            lambda x: nn.functional.cross_entropy(x, LABELS.view(2, 2), axis=1),
            lambda x: F.cross_entropy(x, LABELS.view(2, 2)),
            [2, 3, 2],
        ),
        (
            lambda x: nn.CrossEntropyLoss(use_softmax=False)(nn.Softmax()(x), LABELS),
            lambda x: F.cross_entropy(x, LABELS),
            [4, 3],
        ),
        (lambda x: nn.functional.softmax_with_cross_entropy(x, LABELS[:, None]), row_losses, [4, 3]),
        (lambda x: nn.functional.softmax_with_cross_entropy(x, LABELS[:, None, None]), row_losses, [4, 3]),
        (lambda x: nn.NLLLoss()(x, LABELS), lambda x: F.nll_loss(x, LABELS), [4, 3]),
        (
            lambda x: nn.BCELoss()(nn.functional.sigmoid(x), ONES),
            lambda x: F.binary_cross_entropy(x.sigmoid(), ONES),
            [3],
        ),
        (lambda x: nn.BCEWithLogitsLoss()(x, ONES), lambda x: F.binary_cross_entropy(x.sigmoid(), ONES), [3]),
        (
            lambda x: nn.KLDivLoss("batchmean")(x, ONES.expand(2, 3)),
            lambda x: F.kl_div(x, ONES.expand(2, 3), reduction="batchmean"),
            [2, 3],
        ),
        (lambda x: nn.LayerNorm([4])(x.astype("float32")), lambda x: F.layer_norm(x.float(), [4]), [3, 4]),
        (lambda x: nn.BatchNorm1D(4)(x.astype("float32")), normed, [3, 4]),
        (lambda x: nn.BatchNorm2D(2)(x.astype("float32")), normed, [3, 2, 2, 2]),
    ],
)
def test_equal_to_torch(ours: Callable[[Any], Any], plain: Callable[[Any], torch.Tensor], shape: list[int]) -> None:
    x, reference = pair(shape)
    made, wanted = ours(x), plain(reference)
    assert type(made) is paddle.Tensor
    assert tuple(made.shape) == (tuple(wanted.shape) or (1,))
    np.testing.assert_allclose(made.numpy(), np.atleast_1d(wanted.detach().numpy()), rtol=1e-6, atol=1e-6)
    made.backward()
    wanted.sum().backward()
    assert reference.grad is not None
    np.testing.assert_allclose(x.gradient(), reference.grad.numpy(), rtol=1e-6, atol=1e-6)


def test_layers_with_weights_equal_torch() -> None:
    linear, conv = nn.Linear(3, 2), nn.Conv2D(4, 6, 3, padding="SAME", groups=2)
    for shape in ([5, 3], [2, 5, 3]):
        x = paddle.randn(shape)
        wanted = F.linear(x, linear.weight.T, linear.bias)
        np.testing.assert_allclose(linear(x).numpy(), wanted.detach().numpy(), atol=1e-6)
    image = paddle.randn([1, 4, 5, 5])
    wanted = F.conv2d(image, conv.weight, conv.bias, padding="same", groups=2)
    np.testing.assert_allclose(conv(image).numpy(), wanted.detach().numpy(), atol=1e-6)
    table = nn.Embedding(5, 2, padding_idx=-1, sparse=True)
    rows = table(paddle.to_tensor([[1, 4]]))
    assert rows.shape == [1, 2, 2]
    np.testing.assert_array_equal(rows.numpy()[0, 1], [0, 0])
    rows.backward()
    assert table.weight.grad.is_sparse
    assert table.weight.grad.to_dense()[4].abs().sum() == 0


def test_padding_reads_as_zeros_and_a_mean_over_nothing_is_zero() -> None:
    weight = paddle.to_tensor(np.ones((3, 2)), "float32", stop_gradient=False)
    rows = nn.functional.embedding(paddle.to_tensor([0, 2]), weight, padding_idx=-1)
    np.testing.assert_array_equal(rows.numpy(), [[1, 1], [0, 0]])
    scores = paddle.to_tensor(np.ones((2, 3)), stop_gradient=False)
    loss = nn.functional.cross_entropy(scores, paddle.to_tensor([7, 7]), ignore_index=7)
    loss.backward()
    assert float(loss) == 0
    np.testing.assert_array_equal(scores.gradient(), np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.MSELoss("median")(paddle.ones([1]), paddle.ones([1])), UsageError, "reduction must be mean"),
        (
            lambda: nn.KLDivLoss("median")(paddle.ones([1]), paddle.ones([1])),
            UsageError,
            "must be mean, sum, batchmean or none, got 'median'",
        ),
        (lambda: nn.Embedding(3, 2, padding_idx=3), UsageError, "padding_idx must be from -3 to 2, got 3"),
        (lambda: nn.Conv2D(3, 4, 3, groups=2), UsageError, "groups must divide 3 and 4 channels, got 2"),
        (lambda: nn.Dropout(1.5), UsageError, "p must be from 0 to 1"),
        (lambda: nn.BatchNorm2D(2, data_format="NCL"), UsageError, "data_format must be NCHW or NHWC, got 'NCL'"),
        (lambda: nn.functional.conv2d(paddle.ones([1]), None, data_format="NHCW"), UsageError, "got 'NHCW'"),
        (lambda: nn.functional.dropout(paddle.ones([1]), mode="x"), UsageError, "mode must be upscale_in_train"),
    ],
)
def test_mistakes(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_layers_of_functions_show_their_settings_and_heed_them() -> None:
    loss = nn.MSELoss("sum")
    x, y = paddle.ones([2, 2]), paddle.zeros([2, 2])
    assert (loss.reduction, float(loss(x, label=y))) == ("sum", 4.0)
    loss.reduction = "mean"
    assert float(loss(x, y)) == 1.0
    drop = nn.Dropout(1.0)
    assert (drop.p, float(drop(x).sum()), float(drop.eval()(x).sum())) == (1.0, 0.0, 4.0)
    weight = paddle.to_tensor([1.0, 3.0])
    assert nn.CrossEntropyLoss(weight=weight).weight is weight
