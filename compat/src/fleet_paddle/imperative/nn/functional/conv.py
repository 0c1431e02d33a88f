"""Convolutions of sequences, images and volumes, and the transposed ones, which go the other way."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.creation import sizes
from fleet_paddle.imperative.nn.functional.window import Sizes, back, each, equal_sides, flat, is_last, sides, to_first
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
]

_FORWARD: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def conv1d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """A convolution of sequences."""
    return _conv(1, x, weight, bias, stride, padding, dilation, groups, data_format)


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """A convolution of images."""
    return _conv(2, x, weight, bias, stride, padding, dilation, groups, data_format)


def conv3d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """A convolution of volumes."""
    return _conv(3, x, weight, bias, stride, padding, dilation, groups, data_format)


def conv1d_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """A transposed convolution of sequences; see `conv2d_transpose`."""
    return _transposed(1, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format)


def conv2d_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """A transposed convolution of images: the filter is [in_channels, out_channels / groups, height, width].

    Several output sizes have the same input size: `output_padding` says how many more there are than the fewest, or
    `output_size` says how many there are.
    """
    return _transposed(2, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format)


def conv3d_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    output_size: Any = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """A transposed convolution of volumes; see `conv2d_transpose`."""
    return _transposed(3, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format)


def _conv(
    rank: int,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sizes,
    padding: Any,
    dilation: Sizes,
    groups: int,
    data_format: str,
) -> Tensor:
    what = f"conv{rank}d"
    last = is_last(what, data_format, rank)
    if type(padding) is int and not last:
        made: torch.Tensor = _FORWARD[rank](x, weight, bias, stride, padding, dilation, groups)
        return own(made)
    image = to_first(x, last)
    around = sides(what, padding, last, image.shape[2:], weight.shape[2:], stride, dilation)
    pads = equal_sides(around)
    if pads is None:
        image, pads = F.pad(image, flat(around)), [0] * rank
    return own(back(_FORWARD[rank](image, weight, bias, stride, pads, dilation, groups), last))


def _transposed(
    rank: int,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sizes,
    padding: Any,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
    output_size: Any,
    data_format: str,
) -> Tensor:
    what = f"conv{rank}d_transpose"
    last = is_last(what, data_format, rank)
    image = to_first(x, last)
    if isinstance(padding, str) and padding.upper() == "SAME":
        raise NotSupportedError(f"{what}: padding 'SAME' is not built; give numbers")
    around = sides(what, padding, last, image.shape[2:], weight.shape[2:], stride, dilation)
    steps, rates, extra = (each(what, one, rank) for one in (stride, dilation, output_padding))
    if output_size is not None:
        wanted = each(f"{what}: output_size", sizes(output_size), rank)
        least = [
            (size - 1) * step - before - after + rate * (side - 1) + 1
            for size, step, rate, side, (before, after) in zip(
                image.shape[2:], steps, rates, weight.shape[2:], around, strict=True
            )
        ]
        extra = [one - fewest for one, fewest in zip(wanted, least, strict=True)]
        if any(not 0 <= more < step for more, step in zip(extra, steps, strict=True)):
            most = [fewest + step - 1 for fewest, step in zip(least, steps, strict=True)]
            raise UsageError(f"{what}: output_size must be from {least} to {most}, got {wanted}")
    pads = equal_sides(around)
    made = _TRANSPOSED[rank](image, weight, bias, steps, pads or [0] * rank, extra, groups, rates)
    if pads is None:
        for dim, (before, after) in enumerate(around, 2):
            made = torch.narrow(made, dim, before, made.shape[dim] - before - after)
    return own(back(made, last))
