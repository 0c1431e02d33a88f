"""Layers over images against torch, or against one dimension after the other where torch has no such formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.programs import layers
from fleet_programs.layers.io import fed
from program_support.programs import building
from program_support.static_ops import check, normal

X = normal(2, 3, 5, 4)


def along(x: torch.Tensor, dim: int, size: int, ratio: float) -> torch.Tensor:
    """Pixels at their beginnings."""
    parts = []
    for place in range(size):
        low = min(int(place * ratio), x.shape[dim] - 1)
        share = place * ratio - low
        parts.append(x.select(dim, low) * (1 - share) + x.select(dim, min(low + 1, x.shape[dim] - 1)) * share)
    return torch.stack(parts, dim)


@pytest.mark.parametrize("size", [(7, 3), (1, 8)])
def test_bilinear(size: tuple[int, int]) -> None:
    check(
        lambda x: layers.resize_bilinear(x, size),
        {"x": X},
        lambda x: functional.interpolate(x, size, mode="bilinear", align_corners=True),
    )
    check(
        lambda x: layers.resize_bilinear(x, size, align_corners=False, align_mode=0),
        {"x": X},
        lambda x: functional.interpolate(x, size, mode="bilinear", align_corners=False),
    )
    check(
        lambda x: layers.image_resize(x, size, align_corners=False, data_format="NHWC"),
        {"x": X.transpose(0, 2, 3, 1).copy()},
        lambda x: along(along(x, 1, size[0], 5 / size[0]), 2, size[1], 4 / size[1]),
    )


def test_others() -> None:
    check(
        lambda x: layers.resize_nearest(x, scale=2.0, align_corners=False),
        {"x": X},
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
    )
    check(
        lambda x: layers.resize_nearest(x, [3, 7]),
        {"x": X},
        lambda x: x[:, :, [int(2 * k + 0.5) for k in range(3)]][..., [int(0.5 * k + 0.5) for k in range(7)]],
    )
    check(
        lambda x: layers.resize_linear(x, [7]),
        {"x": normal(2, 3, 5)},
        lambda x: functional.interpolate(x, 7, mode="linear", align_corners=True),
    )
    check(
        lambda x: layers.resize_trilinear(x, [2, 5, 3], align_corners=False, align_mode=0),
        {"x": normal(2, 1, 3, 4, 2)},
        lambda x: functional.interpolate(x, [2, 5, 3], mode="trilinear", align_corners=False),
    )
    check(
        lambda x: layers.image_resize_short(x, 8),
        {"x": X},
        lambda x: functional.interpolate(x, [10, 8], mode="bilinear", align_corners=True),
    )


@pytest.mark.parametrize(("mode", "torchs"), [("constant", "constant"), ("reflect", "reflect"), ("edge", "replicate")])
def test_pad2d(mode: str, torchs: str) -> None:
    value = 2.0 if mode == "constant" else None

    def reference(x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x, (3, 0, 1, 2), torchs, value)

    check(lambda x: layers.pad2d(x, [1, 2, 3, 0], mode, 2.0), {"x": X}, reference)
    check(
        lambda x: layers.pad2d(x, [1, 2, 3, 0], mode, 2.0, "NHWC"),
        {"x": X.transpose(0, 2, 3, 1).copy()},
        lambda x: reference(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1),
    )


def test_channels_in_other_places() -> None:
    check(lambda x: layers.pixel_shuffle(x, 2), {"x": normal(2, 8, 3, 2)}, lambda x: functional.pixel_shuffle(x, 2))
    check(lambda x: layers.shuffle_channel(x, 2), {"x": normal(2, 6, 1, 2)}, lambda x: x[:, [0, 3, 1, 4, 2, 5]])

    def deep(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :, row::2, column::2] for row in (0, 1) for column in (0, 1)], 1)

    check(lambda x: layers.space_to_depth(x, 2), {"x": normal(2, 3, 4, 2)}, deep)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x: layers.image_resize(x), UsageError, "give out_shape or scale, and not both"),
        (lambda x: layers.image_resize(x, [2, 2], resample="AREA"), UsageError, "resample must be one of LINEAR"),
        (lambda x: layers.resize_bilinear(x, [2]), UsageError, "out_shape must be 2 sizes"),
        (lambda x: layers.resize_nearest(x, [2, 2], data_format="NC"), UsageError, "data_layout must be NCHW or NHWC"),
        (
            lambda x: layers.resize_nearest(x, [2, 2], actual_shape=x),
            NotSupportedError,
            "actual_shape must be left out",
        ),
        (lambda x: layers.pad2d(x, [1, 1]), UsageError, "paddings must be counts above, below, left and right"),
        (lambda x: layers.pixel_shuffle(x, 2), UsageError, "the square of upscale_factor must divide 3 channels"),
    ],
)
def test_bad_arguments(build: Any, error: type[Exception], message: str) -> None:
    with building(), pytest.raises(error, match=message):
        build(fed("x", [-1, 3, 4, 4]))


def test_sizes_that_are_not_known_while_building() -> None:
    with building() as built:
        out = layers.resize_bilinear(fed("x", [-1, 1, -1, -1]), scale=2.0)
    assert out.shape == (-1, 1, -1, -1)
    assert built.run({"x": np.zeros((1, 1, 3, 2), np.float32)}, out)[0].shape == (1, 1, 6, 4)
