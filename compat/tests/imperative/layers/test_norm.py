"""Norms equal torch's; batch norm keeps what Paddle keeps, alone and over several workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

import fleet_paddle.imperative as paddle
from fleet.collective.parts import sync_batch_norm
from fleet.collective.parts.recompute import recompute
from fleet.errors import FleetError
from fleet_paddle.imperative import nn

f = nn.functional


def normed(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, training=True)


def last(layer: Any) -> Callable[[Any], Any]:
    return lambda x: torch.movedim(layer(torch.movedim(x, 1, -1)), -1, 1).as_subclass(paddle.Tensor)


@pytest.mark.parametrize(
    ("ours", "plain", "shape"),
    [
        (nn.BatchNorm1D(4), normed, [3, 4]),
        (nn.BatchNorm1D(4), normed, [3, 4, 5]),
        (nn.BatchNorm2D(4), normed, [3, 4, 2, 2]),
        (last(nn.BatchNorm2D(4, data_format="NHWC")), normed, [3, 4, 2, 2]),
        (nn.BatchNorm3D(4), normed, [3, 4, 2, 2, 2]),
        (nn.BatchNorm(4, act="relu"), lambda x: normed(x).relu(), [3, 4, 2, 2]),
        (nn.BatchNorm(4, is_test=True, epsilon=0.0), lambda x: x * 1.0, [3, 4]),
        (nn.BatchNorm(4, trainable_statistics=True).eval(), normed, [3, 4]),
        (nn.BatchNorm2D(4, weight_attr=False, bias_attr=False), normed, [3, 4, 2, 2]),
        (nn.SyncBatchNorm(4), normed, [3, 4, 2, 2]),
        (nn.GroupNorm(2, 4), lambda x: F.group_norm(x, 2), [3, 4, 2, 2]),
        (last(nn.GroupNorm(2, 4, data_format="NHWC")), lambda x: F.group_norm(x, 2), [3, 4, 2, 2]),
        (nn.InstanceNorm1D(4), F.instance_norm, [3, 4, 5]),
        (nn.InstanceNorm2D(4), F.instance_norm, [3, 4, 5, 2]),
        (nn.InstanceNorm3D(4), F.instance_norm, [3, 4, 5, 2, 2]),
        (nn.LocalResponseNorm(3, 0.1), lambda x: F.local_response_norm(x, 3, 0.1), [3, 4, 5, 2]),
        (lambda x: f.normalize(x, 1), lambda x: F.normalize(x, 1), [3, 4]),
        (lambda x: f.normalize(x), lambda x: F.normalize(x, dim=0), [3]),
    ],
)
def test_equal_to_torch(ours: Callable[[Any], Any], plain: Callable[[Any], torch.Tensor], shape: list[int]) -> None:
    torch.manual_seed(1)
    reference = torch.randn(shape, requires_grad=True)
    x = paddle.to_tensor(reference.detach().clone(), stop_gradient=False)
    made, wanted = ours(x), plain(reference)
    assert type(made) is paddle.Tensor
    np.testing.assert_allclose(made.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)
    (made * made * made).sum().backward()
    (wanted * wanted * wanted).sum().backward()
    assert reference.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), reference.grad.numpy(), rtol=1e-3, atol=1e-4)


X = [[0.0, 10.0], [4.0, 10.0]]


def test_batch_norm_keeps_a_share_and_the_biased_variance() -> None:
    norm: Any = nn.BatchNorm1D(2, momentum=0.8)
    norm(paddle.to_tensor(X))
    np.testing.assert_allclose(norm._mean.numpy(), [0.2 * 2, 0.2 * 10], rtol=1e-6)
    np.testing.assert_allclose(norm._variance.numpy(), [0.8 + 0.2 * 4, 0.8], rtol=1e-6)
    assert list(norm.state_dict()) == ["weight", "bias", "_mean", "_variance"]
    norm.eval()
    np.testing.assert_allclose(norm(paddle.to_tensor(X)).numpy()[0, 0], -0.4 / 1.6**0.5, rtol=1e-4)
    np.testing.assert_allclose(norm._mean.numpy(), [0.4, 2.0], rtol=1e-6)


def test_one_value_of_each_channel_stays_as_it_is() -> None:
    norm: Any = nn.BatchNorm1D(2, weight_attr=nn.initializer.Constant(3.0))
    assert norm(paddle.to_tensor(X[:1])).numpy().tolist() == X[:1]
    assert norm._mean.numpy().tolist() == [0, 0]


def test_global_statistics_are_used_in_training_too() -> None:
    norm: Any = nn.BatchNorm1D(2, use_global_stats=True, epsilon=0.0)
    norm._mean.set_value(np.array([1.0, 1.0], "float32"))
    assert norm(paddle.to_tensor(X)).numpy().tolist() == [[-1, 9], [3, 9]]
    assert norm._mean.numpy().tolist() == [1, 1]
    fixed = nn.BatchNorm1D(2, weight_attr=False, bias_attr=False)
    assert [one.stop_gradient for one in (fixed.weight, fixed.bias)] == [True, True]


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another worker had the same batch."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda values: values.mul_(2))


def test_statistics_of_all_workers(two_workers: None) -> None:
    torch.manual_seed(1)
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1D(2), nn.Sequential(nn.BatchNorm(2, act="relu")))
    weight = model[1].weight
    alone = model(paddle.to_tensor(X)).numpy()
    kept = model[1]._variance.clone()
    converted: Any = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model
    assert type(model[1]) is nn.SyncBatchNorm
    assert model[1].weight is weight
    assert [sync_batch_norm.is_synchronised(one) for one in model.modules()] == [False, False, True, False, True]
    model[1]._variance.fill_(1.0)
    np.testing.assert_allclose(model(paddle.to_tensor(X)).numpy(), alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model[1]._variance, kept)
    model(paddle.to_tensor(X[:1])).sum().backward()
    assert torch.isfinite(weight.grad).all()


def test_a_strategy_synchronises_and_recomputes_ours_too() -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1D(2))
    sync_batch_norm.synchronise(model, torch.device("cpu"))
    assert model[1].is_synchronised
    recompute(model, ["1"], offload=False)
    model(paddle.to_tensor(X)).sum().backward()
    once = model[1]._mean.clone()
    model[1].is_counting = False
    model(paddle.to_tensor(X))
    torch.testing.assert_close(model[1]._mean, once)
    torch.testing.assert_close(once, 0.1 * model[0](paddle.to_tensor(X)).mean(0).detach(), check_stride=False)


def test_spectral_norm_divides_by_the_greatest_singular_value() -> None:
    norm, weight = nn.SpectralNorm([3, 2, 2], dim=1, power_iters=50), paddle.randn([3, 2, 2])
    greatest = torch.linalg.matrix_norm(torch.movedim(weight, 1, 0).reshape(2, 6), 2)
    np.testing.assert_allclose(norm(weight).numpy(), (weight / greatest).numpy(), rtol=1e-3)
    assert list(norm.state_dict()) == ["weight_u", "weight_v"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.BatchNorm2D(2)(paddle.ones([2, 2])), r"BatchNorm2D takes 4 dimensions, got shape \[2, 2\]"),
        (lambda: nn.BatchNorm(2, in_place=True), "in_place is not built"),
        (lambda: nn.BatchNorm(2, act="nothing"), "act must be the name of a function"),
        (lambda: nn.GroupNorm(3, 4), "num_groups must divide 4 channels, got 3"),
        (lambda: nn.InstanceNorm1D(3, data_format="NCHW"), "data_format must be NCL or NLC"),
        (lambda: f.instance_norm(paddle.ones([1, 2, 3]), paddle.ones([2])), "leave the running ones out"),
        (lambda: f.batch_norm(paddle.ones([2, 2]), paddle.ones([2]), paddle.ones([2]), data_format="X"), "one of NC"),
    ],
)
def test_mistakes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        call()


def test_batch_norm_has_the_type_that_it_is_given() -> None:
    layer = nn.BatchNorm(2, dtype="float64")
    assert {one.dtype for one in layer.state_dict().values()} == {torch.float64}
    assert layer(paddle.ones([3, 2], "float64")).dtype == torch.float64
