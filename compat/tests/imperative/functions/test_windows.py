"""Convolutions, pools, padding and resizing equal torch's, forward and backward, whatever the layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

import fleet_paddle.imperative as paddle
from fleet.errors import FleetError
from fleet_paddle.imperative import nn

f = nn.functional
W1, W2, W3 = torch.ones(4, 2, 3) / 3, torch.arange(72.0).view(4, 2, 3, 3) / 72, torch.ones(2, 2, 2, 2, 2)
L, I, V = [2, 2, 7], [2, 2, 6, 7], [1, 2, 4, 4, 4]  # noqa: E741


def last(function: Callable[..., Any], *args: Any, **named: Any) -> Callable[[Any], Any]:
    """The function with the channels last: it is given them first, and gives them back first."""
    return lambda x: torch.movedim(function(torch.movedim(x, 1, -1), *args, **named), -1, 1).as_subclass(paddle.Tensor)


def same(x: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.pad(x, [1, 1, 0, 1]), W2, stride=2)


def cut(x: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose2d(x, W2.movedim(0, 1), stride=2)[:, :, 1:, :-2]


def means(x: torch.Tensor) -> torch.Tensor:
    padded, inside = (F.pad(one, [0, 1, 0, 0]) for one in (x, torch.ones_like(x)))
    return F.avg_pool2d(padded, 2) / F.avg_pool2d(inside, 2)


CASES: list[tuple[Callable[[Any], Any], Callable[[Any], Any], list[int]]] = [
    (lambda x: f.conv1d(x, W1, padding=1, stride=2), lambda x: F.conv1d(x, W1, padding=1, stride=2), L),
    (lambda x: f.conv2d(x, W2, None, [2, 1], [1, 2]), lambda x: F.conv2d(x, W2, None, [2, 1], [1, 2]), I),
    (lambda x: f.conv2d(x, W2, stride=2, padding="SAME"), same, I),
    (lambda x: f.conv2d(x, W2, padding="VALID"), lambda x: F.conv2d(x, W2), I),
    (lambda x: f.conv2d(x, W2, padding=[1, 0, 2, 3]), lambda x: F.conv2d(F.pad(x, [2, 3, 1, 0]), W2), I),
    (lambda x: f.conv2d(x, W2, padding=[[0, 0], [0, 0], [1, 1], [0, 0]]), lambda x: F.conv2d(x, W2, padding=[1, 0]), I),
    (last(f.conv2d, W2, padding=1, data_format="NHWC"), lambda x: F.conv2d(x, W2, padding=1), I),
    (lambda x: f.conv3d(x, W3, dilation=2), lambda x: F.conv3d(x, W3, dilation=2), V),
    (lambda x: f.conv1d_transpose(x, W1.movedim(0, 1)), lambda x: F.conv_transpose1d(x, W1.movedim(0, 1)), L),
    (
        lambda x: f.conv2d_transpose(x, W2.movedim(0, 1), stride=2, padding=1, output_size=[12, 13]),
        lambda x: F.conv_transpose2d(x, W2.movedim(0, 1), stride=2, padding=1, output_padding=[1, 0]),
        I,
    ),
    (lambda x: f.conv2d_transpose(x, W2.movedim(0, 1), stride=2, padding=[1, 0, 0, 2]), cut, I),
    (lambda x: f.conv3d_transpose(x, W3, stride=2), lambda x: F.conv_transpose3d(x, W3, stride=2), V),
    (nn.MaxPool1D(3, 2, 1), lambda x: F.max_pool1d(x, 3, 2, 1), L),
    (nn.MaxPool2D(2, ceil_mode=True), lambda x: F.max_pool2d(x, 2, ceil_mode=True), I),
    (nn.MaxPool2D(2, padding=[0, 0, 1, 0]), lambda x: F.max_pool2d(F.pad(x, [1, 0], value=-9.0), 2), I),
    (last(f.max_pool2d, 2, data_format="NHWC"), lambda x: F.max_pool2d(x, 2), I),
    (nn.MaxPool3D(2), lambda x: F.max_pool3d(x, 2), V),
    (nn.AvgPool1D(3, 2, 1), lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False), L),
    (nn.AvgPool1D(3, 2, 1, exclusive=False), lambda x: F.avg_pool1d(x, 3, 2, 1), L),
    (nn.AvgPool2D(2, padding="SAME"), means, I),
    (nn.AvgPool3D(2, divisor_override=3), lambda x: F.avg_pool3d(x, 2, divisor_override=3), V),
    (nn.AdaptiveAvgPool1D(3), lambda x: F.adaptive_avg_pool1d(x, 3), L),
    (nn.AdaptiveAvgPool2D([2, None]), lambda x: F.adaptive_avg_pool2d(x, (2, None)), I),
    (nn.AdaptiveAvgPool3D(2), lambda x: F.adaptive_avg_pool3d(x, 2), V),
    (nn.AdaptiveMaxPool1D(3), lambda x: F.adaptive_max_pool1d(x, 3), L),
    (nn.AdaptiveMaxPool2D(2), lambda x: F.adaptive_max_pool2d(x, 2), I),
    (nn.AdaptiveMaxPool3D(2), lambda x: F.adaptive_max_pool3d(x, 2), V),
    (nn.Pad1D([1, 2], value=3.0), lambda x: F.pad(x, [1, 2], value=3.0), L),
    (nn.Pad2D([1, 2, 0, 1], mode="reflect"), lambda x: F.pad(x, [1, 2, 0, 1], "reflect"), I),
    (nn.Pad2D(1, mode="circular"), lambda x: F.pad(x, [1, 1, 1, 1], "circular"), I),
    (nn.Pad3D(1, mode="replicate"), lambda x: F.pad(x, [1] * 6, "replicate"), V),
    (last(nn.Pad2D([1, 0, 0, 0], data_format="NHWC")), lambda x: F.pad(x, [1, 0]), I),
    (lambda x: f.pad(x, [0, 1, 2, 0]), lambda x: F.pad(x, [2, 0, 0, 1]), [2, 3]),
    (lambda x: f.pad(x, [1, 0, 0, 0, 0, 0, 0, 2]), lambda x: F.pad(x, [0, 2, 0, 0, 0, 0, 1, 0]), I),
    (nn.Upsample(scale_factor=2), lambda x: F.interpolate(x, scale_factor=2), I),
    (nn.Upsample([3, 5], mode="bilinear"), lambda x: F.interpolate(x, [3, 5], mode="bilinear"), I),
    (nn.Upsample(5, mode="bicubic"), lambda x: F.interpolate(x, [5, 5], mode="bicubic"), I),
    (last(nn.Upsample([3, 5], mode="area", data_format="NHWC")), lambda x: F.interpolate(x, [3, 5], mode="area"), I),
    (nn.UpsamplingNearest2D(scale_factor=[2, 3]), lambda x: F.interpolate(x, scale_factor=[2, 3]), I),
    (nn.UpsamplingBilinear2D(9), lambda x: F.interpolate(x, [9, 9], mode="bilinear", align_corners=True), I),
    (lambda x: f.upsample(x, [9], mode="linear", data_format="NCW"), lambda x: F.interpolate(x, 9, mode="linear"), L),
    (nn.Unfold([2, 3], paddings=[1, 0, 0, 2]), lambda x: F.unfold(F.pad(x, [0, 2, 1, 0]), (2, 3)), I),
    (nn.PixelShuffle(2), lambda x: F.pixel_shuffle(x, 2), [1, 8, 2, 3]),
    (nn.Dropout2D(0.3).eval(), lambda x: x, I),
]


@pytest.mark.parametrize(("ours", "plain", "shape"), CASES)
def test_equal_to_torch(ours: Callable[[Any], Any], plain: Callable[[Any], torch.Tensor], shape: list[int]) -> None:
    torch.manual_seed(1)
    reference = torch.randn(shape, requires_grad=True)
    x = paddle.to_tensor(reference.detach().clone(), stop_gradient=False)
    made, wanted = ours(x), plain(reference)
    assert type(made) is paddle.Tensor
    np.testing.assert_allclose(made.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)
    (made * made).sum().backward()
    (wanted * wanted).sum().backward()
    assert reference.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), reference.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("layer", "plain", "shape"),
    [
        (nn.Conv1D(2, 4, 3, padding=1), F.conv1d, L),
        (nn.Conv2D(2, 4, 3, padding=1, groups=2), F.conv2d, I),
        (nn.Conv3D(2, 4, 3, padding=1), F.conv3d, V),
        (nn.Conv1DTranspose(2, 4, 3, 1, 1), F.conv_transpose1d, L),
        (nn.Conv2DTranspose(2, 4, 3, 1, 1), F.conv_transpose2d, I),
        (nn.Conv3DTranspose(2, 4, 3, 1, 1), F.conv_transpose3d, V),
    ],
)
def test_layers_hold_filters_as_torch_does(layer: Any, plain: Any, shape: list[int]) -> None:
    x = paddle.randn(shape)
    wanted = plain(x, layer.weight, layer.bias, padding=1, groups=2 if isinstance(layer, nn.Conv2D) else 1)
    torch.testing.assert_close(layer(x), wanted, rtol=1e-5, atol=1e-5, check_stride=False)


def test_padding_of_a_convolution_may_come_from_the_image() -> None:
    layer, x = nn.Conv2D(2, 1, 3, padding=[1, 2], padding_mode="reflect"), paddle.randn(I)
    wanted = F.conv2d(F.pad(x, [2, 2, 1, 1], "reflect"), layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), wanted)


def test_a_transposed_convolution_takes_its_output_size_at_the_call() -> None:
    layer = nn.Conv2DTranspose(2, 3, 3, stride=2, padding=1)
    assert layer(paddle.ones([1, 2, 4, 4])).shape == [1, 3, 7, 7]
    assert layer(paddle.ones([1, 2, 4, 4]), output_size=[8, 7]).shape == [1, 3, 8, 7]


def test_pools_say_where_the_greatest_was() -> None:
    _, places = nn.MaxPool2D(2, return_mask=True)(paddle.to_tensor([[[[1.0, 5.0], [2.0, 3.0]]]]))
    assert places.numpy().tolist() == [[[[1]]]]
    assert nn.MaxPool2D(3, stride=1).extra_repr() == "kernel_size=3, stride=1"


def test_places_of_a_grid_and_shifts_of_frames() -> None:
    x = paddle.randn([1, 2, 3, 3])
    grid = f.affine_grid(paddle.to_tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), [1, 2, 3, 3])
    torch.testing.assert_close(f.grid_sample(x, grid), x)
    frames = paddle.to_tensor(np.arange(8.0, dtype="float32").reshape(2, 4, 1, 1))
    assert f.temporal_shift(frames, 2).numpy().reshape(2, 4).tolist() == [[0, 5, 2, 3], [0, 0, 6, 7]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f.conv2d(paddle.ones(I), W2, padding=[1, 1, 1]), "padding must be a whole number or 2 of them"),
        (lambda: f.conv2d(paddle.ones(I), W2, padding="FULL"), "padding must be 'SAME', 'VALID' or numbers"),
        (lambda: nn.Conv2DTranspose(2, 4, 3, stride=2)(paddle.ones(I), [20, 20]), "output_size must be from"),
        (lambda: nn.Conv1D(2, 4, 3, padding_mode="mirror"), "padding_mode must be one of zeros"),
        (lambda: nn.Conv3D(2, 4, [3, 3]), "kernel_size must be a whole number or 3 of them"),
        (lambda: nn.Conv1D(2, 4, 3, weight_attr=False), "weight_attr must not be False"),
        (lambda: nn.Conv1D(2, 4, 3, padding="SAME", padding_mode="reflect"), "takes padding_mode 'zeros'"),
        (lambda: nn.MaxPool2D(2, padding=[1, 0, 0, 0], return_mask=True)(paddle.ones(I)), "return_mask needs"),
        (lambda: f.pad(paddle.ones([2, 3]), [1, 1, 1]), "takes 0 numbers, or with mode constant 4, got 3"),
        (lambda: f.pad(paddle.ones(L), [1, 1], mode="mirror"), "mode must be constant, reflect"),
        (lambda: f.interpolate(paddle.ones(I), 3, mode="linear"), "takes 3 dimensions, got 4"),
        (lambda: f.interpolate(paddle.ones(I)), "give size or scale_factor"),
        (lambda: f.interpolate(paddle.ones(I), 3, mode="cubic"), "mode must be one of nearest"),
        (lambda: f.interpolate(paddle.ones(I), 3, mode="bilinear", align_mode=1), "align_mode=1 is not built"),
        (lambda: f.interpolate(paddle.ones(I), 3, align_corners=True), "align_corners is not built for mode 'nearest'"),
    ],
)
def test_mistakes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        call()
