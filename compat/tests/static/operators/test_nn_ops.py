"""fc, convolutions, pooling and dropout against torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.backward.backward import gradients
from fleet_programs.layers.images.conv import conv2d, conv3d
from fleet_programs.layers.images.conv_transpose import conv2d_transpose
from fleet_programs.layers.images.pool import adaptive_pool2d, pool2d
from fleet_programs.layers.io import data, fed
from fleet_programs.layers.nn import dropout, fc
from program_support.programs import building
from program_support.static_ops import check, normal

IMAGE = normal(2, 4, 7, 6)
Reference = Callable[..., torch.Tensor]


def last(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1)


def first(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(-1, 1)


def test_fc_of_one_and_of_several_inputs() -> None:
    check(lambda x: fc(x, 3, act="tanh"), {"x": normal(4, 5)}, lambda x, w, b: torch.tanh(x @ w + b))
    check(
        lambda x, y: fc([x, y], 3, bias_attr=False),
        {"x": normal(4, 5), "y": normal(4, 2, 3)},
        lambda x, y, v, w: x @ v + y.flatten(1) @ w,
    )
    for dims in (2, -1):
        check(lambda x, dims=dims: fc(x, 3, num_flatten_dims=dims), {"x": normal(2, 4, 5)}, lambda x, w, b: x @ w + b)


def test_names_are_those_of_the_reference() -> None:
    with building() as built:
        x = data("x", [1, 8, 8])
        out = fc(conv2d(x, 2, 3, act="relu"), 10, act="softmax")
        ragged = fc(fed("words", [-1, 4], lod_level=1), 2)
    names = [op.type for op in built.main.global_block().ops]
    assert names[:6] == ["conv2d", "elementwise_add", "relu", "mul", "elementwise_add", "softmax"]
    parameters = [(one.name, one.shape) for one in built.main.all_parameters()]
    assert parameters == [
        ("conv2d_0.w_0", (2, 1, 3, 3)),
        ("conv2d_0.b_0", (2,)),
        ("fc_0.w_0", (72, 10)),
        ("fc_0.b_0", (10,)),
        ("fc_1.w_0", (4, 2)),
        ("fc_1.b_0", (2,)),
    ]
    assert (out.name, out.shape) == ("fc_0.tmp_2", (-1, 10))
    assert (ragged.name, ragged.lod) == ("fc_1.tmp_1", "words@LOD")


def conv(**settings: Any) -> Reference:
    return lambda x, w, b: functional.conv2d(x, w, b, **settings)


CONVS: dict[str, tuple[dict[str, Any], Reference]] = {
    "plain": ({"filter_size": 3}, conv()),
    "all": (
        {"filter_size": [3, 2], "stride": 2, "padding": [1, 2], "dilation": [1, 2], "groups": 2},
        conv(stride=2, padding=(1, 2), dilation=(1, 2), groups=2),
    ),
    "depthwise": ({"filter_size": 3, "groups": 4, "padding": "SAME"}, conv(groups=4, padding=1)),
    "four paddings": ({"filter_size": 3, "padding": [1, 1, 0, 0]}, conv(padding=(1, 0))),
    "no bias": ({"filter_size": 3, "bias_attr": False, "padding": "VALID"}, lambda x, w: functional.conv2d(x, w)),
}


@pytest.mark.parametrize("case", CONVS)
def test_conv2d(case: str) -> None:
    settings, reference = CONVS[case]
    check(lambda x: conv2d(x, 4, **settings), {"x": IMAGE}, reference)


def test_convolutions_with_channels_last_and_over_volumes() -> None:
    channels_last = np.ascontiguousarray(np.moveaxis(IMAGE, 1, -1))
    check(
        lambda x: conv2d(x, 2, 3, stride=2, act="relu", data_format="NHWC"),
        {"x": channels_last},
        lambda x, w, b: last(torch.relu(functional.conv2d(first(x), w, b, stride=2))),
    )
    check(
        lambda x: conv3d(x, 2, 2, padding=1),
        {"x": normal(2, 3, 3, 4, 3)},
        lambda x, w, b: functional.conv3d(x, w, b, padding=1),
    )


TRANSPOSED: dict[str, tuple[dict[str, Any], Reference]] = {
    "by filter": (
        {"filter_size": 3, "stride": 2, "padding": 1, "groups": 2},
        lambda x, w, b: functional.conv_transpose2d(x, w, b, 2, 1, groups=2),
    ),
    "by size": (
        {"output_size": [16, 14], "stride": 2},
        lambda x, w, b: functional.conv_transpose2d(x, w, b, 2),
    ),
    "by both": (
        {"output_size": [14, 12], "filter_size": 3, "stride": 2, "padding": 1},
        lambda x, w, b: functional.conv_transpose2d(x, w, b, 2, 1, 1),
    ),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv2d_transpose(case: str) -> None:
    settings, reference = TRANSPOSED[case]
    built = check(lambda x: conv2d_transpose(x, 2, **settings), {"x": IMAGE}, reference)
    if case == "by size":
        assert built.main.global_block().var("conv2d_transpose_0.w_0").shape == (4, 2, 4, 4)


def avg(**settings: Any) -> Reference:
    return lambda x: functional.avg_pool2d(x, **settings)


POOLS: dict[str, tuple[dict[str, Any], Reference]] = {
    "max": ({"pool_size": 2, "pool_stride": 2}, lambda x: functional.max_pool2d(x, 2, 2)),
    "max with all": (
        {"pool_size": [3, 2], "pool_stride": 2, "pool_padding": 1, "ceil_mode": True},
        lambda x: functional.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True),
    ),
    "max of all": ({"global_pooling": True}, lambda x: x.amax((2, 3), keepdim=True)),
    "avg": (
        {"pool_type": "avg", "pool_size": 3, "pool_stride": 2, "pool_padding": 1},
        avg(kernel_size=3, stride=2, padding=1, count_include_pad=False),
    ),
    "avg that counts padding": (
        {"pool_type": "avg", "pool_size": 3, "pool_stride": 2, "pool_padding": 1, "exclusive": False},
        avg(kernel_size=3, stride=2, padding=1),
    ),
    "avg of all": ({"pool_type": "avg", "global_pooling": True}, lambda x: x.mean((2, 3), keepdim=True)),
}


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", POOLS)
def test_pool2d(case: str, data_format: str) -> None:
    settings, reference = POOLS[case]
    if data_format == "NCHW":
        check(lambda x: pool2d(x, **settings), {"x": IMAGE}, reference)
    else:
        check(
            lambda x: pool2d(x, data_format="NHWC", **settings),
            {"x": np.moveaxis(IMAGE, 1, -1).copy()},
            lambda x: last(reference(first(x))),
        )


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pool2d(kind: str) -> None:
    function = getattr(functional, f"adaptive_{kind}_pool2d")
    check(lambda x: adaptive_pool2d(x, [3, 2], kind), {"x": IMAGE}, lambda x: function(x, (3, 2)))


@pytest.mark.parametrize("how", ["downgrade_in_infer", "upscale_in_train"])
def test_dropout_in_training_and_in_evaluation(how: str) -> None:
    with building() as built:
        built.main.random_seed = 3
        x = fed("x", [-1, 200], "float64")
        out = dropout(x, 0.25, dropout_implementation=how)
        (slope,) = gradients(out, x, fed("seed", [-1, 200], "float64"))
    values, seed = normal(50, 200), normal(50, 200)
    assert slope is not None
    got, mask, slope_value = built.run({"x": values, "seed": seed}, out, "dropout_0.tmp_1", slope)
    factor = 1 / 0.75 if how == "upscale_in_train" else 1.0
    assert 0.73 < mask.mean() < 0.77
    np.testing.assert_allclose(got, values * mask * factor)
    np.testing.assert_allclose(slope_value, seed * mask * factor)
    again = built.run({"x": values, "seed": seed}, out, "dropout_0.tmp_1", slope)[0]
    assert (again != got).any(), "each step has a mask of its own"

    tested = built.main.clone(for_test=True)
    built.main = tested
    np.testing.assert_allclose(built.run({"x": values}, out)[0], values if how == "upscale_in_train" else values * 0.75)


def test_dropout_with_a_seed_is_the_same_in_every_step() -> None:
    with building() as built:
        out = dropout(fed("x", [-1, 9], "float64"), 0.5, seed=7)
        nothing = dropout(fed("x", [-1, 9], "float64"), 1.0, dropout_implementation="upscale_in_train")
    ones = np.ones((4, 9))
    first_time, zeros = built.run({"x": ones}, out, nothing)
    assert (built.run({"x": ones}, out, nothing)[0] == first_time).all()
    assert not zeros.any()


def test_bad_input() -> None:
    with building():
        x, image, loose = fed("x", [-1, 4]), fed("image", [-1, 4, 7, 6]), fed("loose", [-1, -1])
        ids = fed("ids", [-1, 4], "int64")
        mistakes: list[tuple[Callable[[], Any], str]] = [
            (
                lambda: fc(x, 3, num_flatten_dims=2),
                r"test_nn_ops.py:\d+: fc: num_flatten_dims must be from 1 to 1 .* got 2",
            ),
            (lambda: fc(loose, 3), "fc: 'loose' .* must have known sizes from dimension 1 on"),
            (
                lambda: fc([x, x], 3, param_attr=[None]),
                "fc: param_attr must be one, or one for each input, got 1 for 2",
            ),
            (lambda: fc(x, 3, param_attr=False), "fc: param_attr must not be False"),
            (lambda: fc(ids, 3), "input 'ids' must be a float, got int64; cast it, or look it up"),
            (lambda: fc(x, 0), "a parameter needs known sizes"),
            (lambda: conv2d(x, 2, 3), "conv2d: input 'x' must have 4 dimensions, NCHW"),
            (lambda: conv2d(image, 2, 3, groups=3), "groups must divide 4 channels and 2 filters, got 3"),
            (lambda: conv2d(image, 2, 9), "conv2d: Input 'image' .* is smaller than the filter"),
            (lambda: conv2d(image, 2, [3, 3, 3]), "filter_size must be a whole number >= 1, or 2 of them"),
            (lambda: conv2d(image, 2, 3, data_format="CHW"), "data_format must be NCHW or NHWC, got 'CHW'"),
            (lambda: conv2d_transpose(image, 2), "filter_size or output_size must be given"),
            (lambda: conv2d_transpose(image, 2, [99, 9], 3), r"output_size must be from \[9, 8\] to \[9, 8\], got"),
            (lambda: pool2d(image), "pool_size must be given unless global_pooling is True"),
            (lambda: pool2d(image, 2, "median"), "pool_type must be 'max' or 'avg', got 'median'"),
            (lambda: pool2d(image, 2, pool_padding=2), r"paddings from 0 to less than a window, got 2, 1, \[2\]"),
            (lambda: dropout(x, 1.5), "dropout: dropout_prob must be from 0 to 1, got 1.5"),
            (
                lambda: dropout(x, 0.5, dropout_implementation="x"),
                "dropout_implementation must be downgrade_in_infer or",
            ),
        ]
        for call, message in mistakes:
            with pytest.raises(UsageError, match=message):
                call()
        with pytest.raises(UsageTypeError, match="fc: input must be a Variable, got str"):
            fc("x", 3)  # type: ignore[arg-type]
