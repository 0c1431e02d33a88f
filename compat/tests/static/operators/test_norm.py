"""Normalisation against torch's; batch_norm's kept mean and variance against the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleet.errors import UsageError
from fleet_programs import layers
from fleet_programs.layers import norm
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, normal

IMAGE = normal(3, 4, 2, 3)


@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 5), (3, 4, 2, 3), (2, 4, 2, 2, 3)])
def test_batch_norm(shape: tuple[int, ...]) -> None:
    values = normal(*shape)
    built = check(
        lambda x: norm.batch_norm(x, act="relu"),
        {"x": values},
        lambda x, scale, bias: torch.relu(functional.batch_norm(x, None, None, scale, bias, True)),
    )
    others = tuple(dim for dim in range(len(shape)) if dim != 1)
    np.testing.assert_allclose(built["batch_norm_0.w_1"], 0.1 * values.mean(others))
    np.testing.assert_allclose(built["batch_norm_0.w_2"], 0.9 + 0.1 * values.var(others))


def test_batch_norm_with_channels_last() -> None:
    values = np.moveaxis(IMAGE, 1, -1).copy()
    built = check(
        lambda x: norm.batch_norm(x, data_layout="NHWC", momentum=0.5),
        {"x": values},
        lambda x, scale, bias: functional.batch_norm(x.movedim(-1, 1), None, None, scale, bias, True).movedim(1, -1),
    )
    np.testing.assert_allclose(built["batch_norm_0.w_1"], 0.5 * values.mean((0, 1, 2)))


@pytest.mark.parametrize("is_test", [True, False])
def test_batch_norm_with_the_kept_mean_and_variance(is_test: bool) -> None:
    built = check(
        lambda x: norm.batch_norm(x, moving_mean_name="m", is_test=is_test, use_global_stats=not is_test),
        {"x": IMAGE},
        lambda x, scale, bias: functional.batch_norm(x, torch.zeros(4).double(), torch.ones(4).double(), scale, bias),
    )
    assert not built["m"].any()


def test_batch_norm_of_one_value_keeps_a_variance_of_zero() -> None:
    with building() as built:
        out = norm.batch_norm(fed("x", [-1, 2]))
    built.start()
    assert built.run({"x": np.ones((1, 2), np.float32)}, out)[0].tolist() == [[0, 0]]
    np.testing.assert_allclose(built["batch_norm_0.w_2"], 0.9)


def test_a_clone_for_test_leaves_the_kept_values_alone() -> None:
    with building() as built:
        out = norm.batch_norm(fed("x", [-1, 2]))
    built.start()
    built.main = built.main.clone(for_test=True)
    values = np.array([[2.0, 4.0]], np.float32)
    np.testing.assert_allclose(built.run({"x": values}, out)[0], values, rtol=1e-4)
    assert built["batch_norm_0.w_1"].tolist() == [0, 0]


@pytest.mark.parametrize(("scale", "shift"), [(True, True), (True, False), (False, True), (False, False)])
def test_layer_norm(scale: bool, shift: bool) -> None:
    def reference(x: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        left = list(given)
        weight = left.pop(0).view(4, 5) if scale else None
        return functional.layer_norm(x, (4, 5), weight, left.pop(0).view(4, 5) if shift else None)

    check(lambda x: norm.layer_norm(x, scale, shift), {"x": normal(3, 4, 5)}, reference)


def test_layer_norm_of_the_last_dimension() -> None:
    check(
        lambda x: norm.layer_norm(x, begin_norm_axis=2, epsilon=1e-3, act="tanh"),
        {"x": normal(2, 3, 4)},
        lambda x, scale, bias: torch.tanh(functional.layer_norm(x, (4,), scale, bias, 1e-3)),
    )


def test_norms_by_channel() -> None:
    check(
        lambda x: norm.group_norm(x, 2, act="relu"),
        {"x": IMAGE},
        lambda x, scale, bias: torch.relu(functional.group_norm(x, 2, scale, bias)),
    )
    check(
        lambda x: norm.group_norm(x, 2, param_attr=False),
        {"x": IMAGE},
        lambda x, bias: functional.group_norm(x, 2) + bias.view(1, 4, 1, 1),
    )
    check(
        lambda x: norm.group_norm(x, 2, bias_attr=False),
        {"x": IMAGE},
        lambda x, scale: functional.group_norm(x, 2) * scale.view(1, 4, 1, 1),
    )
    check(
        lambda x: norm.group_norm(x, 2, data_layout="NHWC"),
        {"x": IMAGE.transpose(0, 2, 3, 1)},
        lambda x, scale, bias: functional.group_norm(x.movedim(3, 1), 2, scale, bias).movedim(1, 3),
    )
    check(
        norm.instance_norm,
        {"input": IMAGE},
        lambda x, scale, bias: functional.instance_norm(x, weight=scale, bias=bias),
    )


def test_l2_normalize_and_lrn() -> None:
    check(lambda x: layers.l2_normalize(x, 1), {"x": IMAGE}, lambda x: x / x.square().sum(1, keepdim=True).sqrt())

    def lrn(x: torch.Tensor) -> torch.Tensor:
        around = functional.pad(x.square(), (0, 0, 0, 0, 1, 1))
        return x / (2 + 0.1 * (around[:, :-2] + around[:, 1:-1] + around[:, 2:])) ** 0.75

    check(lambda x: layers.lrn(x, 3, 2.0, 0.1), {"x": IMAGE}, lrn)


def test_bad_input() -> None:
    with building():
        x, image = fed("x", [-1, 4]), fed("image", [-1, 4, 2, 3])
        mistakes: list[tuple[Any, str]] = [
            (lambda: norm.batch_norm(fed("flat", [-1])), "batch_norm: input 'flat' must have 2 to 5 dimensions"),
            (lambda: norm.batch_norm(x, momentum=2.0), "momentum must be from 0 to 1, got 2"),
            (lambda: norm.batch_norm(x, param_attr=False), "param_attr must not be False"),
            (lambda: norm.batch_norm(x, data_layout="CN"), "data_layout must be NCHW or NHWC, got 'CN'"),
            (lambda: norm.layer_norm(x, begin_norm_axis=2), "begin_norm_axis must be from 1 to 1 .* got 2"),
            (
                lambda: norm.layer_norm(x, scale=False, param_attr="w"),
                "param_attr is given, but what it is for is switched",
            ),
            (lambda: norm.group_norm(image, 3, data_layout="CN"), "data_layout must be NCHW or NHWC, got 'CN'"),
            (lambda: norm.group_norm(image, 3), "groups must divide the 4 channels of 'image', got 3"),
            (lambda: norm.instance_norm(x), r"input 'x' must be \[batch, channels, sizes...\]"),
            (lambda: layers.lrn(image, 4), "n must be odd and >= 1, got 4"),
        ]
        for call, message in mistakes:
            with pytest.raises(UsageError, match=message):
                call()
