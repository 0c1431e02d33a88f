"""Pooling: one value for each window of a sequence, an image or a volume."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError
from fleet_paddle.imperative.nn.functional.window import Sizes, back, each, equal_sides, flat, is_last, sides, to_first
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

_MAX: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_LARGEST: dict[int, Any] = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def max_pool1d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The greatest value of each window of a sequence; with `return_mask` also where it was."""
    return _max(1, x, kernel_size, stride, padding, return_mask, ceil_mode, "NCL")


def max_pool2d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The greatest value of each window of an image; with `return_mask` also where it was."""
    return _max(2, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def max_pool3d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """The greatest value of each window of a volume; with `return_mask` also where it was."""
    return _max(3, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def avg_pool1d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a sequence; with `exclusive` zeros of the padding do not count."""
    return _mean(1, x, kernel_size, stride, padding, ceil_mode, exclusive, (), "NCL")


def avg_pool2d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of an image; with `exclusive` zeros of the padding do not count."""
    return _mean(2, x, kernel_size, stride, padding, ceil_mode, exclusive, (divisor_override,), data_format)


def avg_pool3d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a volume; with `exclusive` zeros of the padding do not count."""
    return _mean(3, x, kernel_size, stride, padding, ceil_mode, exclusive, (divisor_override,), data_format)


def adaptive_avg_pool1d(x: torch.Tensor, output_size: Any, name: str | None = None) -> Tensor:
    """The means of as many windows as `output_size` says."""
    return own(F.adaptive_avg_pool1d(x, output_size))


def adaptive_avg_pool2d(
    x: torch.Tensor, output_size: Any, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """The means of as many windows as `output_size` says; None is the size that the image has."""
    last = is_last("adaptive_avg_pool2d", data_format, 2)
    return own(back(F.adaptive_avg_pool2d(to_first(x, last), output_size), last))


def adaptive_avg_pool3d(
    x: torch.Tensor, output_size: Any, data_format: str = "NCDHW", name: str | None = None
) -> Tensor:
    """The means of as many windows as `output_size` says; None is the size that the volume has."""
    last = is_last("adaptive_avg_pool3d", data_format, 3)
    return own(back(F.adaptive_avg_pool3d(to_first(x, last), output_size), last))


def adaptive_max_pool1d(x: torch.Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """The greatest values of as many windows as `output_size` says; with `return_mask` also where they were."""
    return own(_LARGEST[1](x, output_size, return_mask))


def adaptive_max_pool2d(x: torch.Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """The greatest values of as many windows as `output_size` says; with `return_mask` also where they were."""
    return own(_LARGEST[2](x, output_size, return_mask))


def adaptive_max_pool3d(x: torch.Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """The greatest values of as many windows as `output_size` says; with `return_mask` also where they were."""
    return own(_LARGEST[3](x, output_size, return_mask))


def _max(
    rank: int,
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Any,
    return_mask: bool,
    ceil_mode: bool,
    data_format: str,
) -> Any:
    image, pads, around, last = _around(f"max_pool{rank}d", rank, x, kernel_size, stride, padding, data_format)
    if pads is None:
        if return_mask:
            raise NotSupportedError(f"max_pool{rank}d: return_mask needs the same padding on both sides; pad the input")
        image, pads = F.pad(image, around, value=-math.inf), [0] * rank
    made = _MAX[rank](image, kernel_size, stride, pads, 1, ceil_mode, return_mask)
    return own(tuple(back(one, last) for one in made) if return_mask else back(made, last))


def _mean(
    rank: int,
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Any,
    ceil_mode: bool,
    exclusive: bool,
    divisor: tuple[int | None, ...],
    data_format: str,
) -> Tensor:
    image, pads, around, last = _around(f"avg_pool{rank}d", rank, x, kernel_size, stride, padding, data_format)
    if pads is not None:
        made = _MEAN[rank](image, kernel_size, stride, pads, ceil_mode, not exclusive, *divisor)
        return own(back(made, last))
    made = _MEAN[rank](F.pad(image, around), kernel_size, stride, 0, ceil_mode, True, *divisor)
    if exclusive and divisor in ((), (None,)):
        inside = F.pad(torch.ones_like(image[:1, :1]), around)
        made = made / _MEAN[rank](inside, kernel_size, stride, 0, ceil_mode, True)
    return own(back(made, last))


def _around(
    what: str, rank: int, x: torch.Tensor, kernel_size: Sizes, stride: Sizes | None, padding: Any, data_format: str
) -> tuple[torch.Tensor, list[int] | None, list[int], bool]:
    """The image with its channels first; its padding if torch's pools can do that; else that of torch's pad."""
    last = is_last(what, data_format, rank)
    image = to_first(x, last)
    both = sides(what, padding, last, image.shape[2:], kernel_size, kernel_size if stride is None else stride)
    pads = equal_sides(both)
    halves = [side // 2 for side in each(f"{what}: kernel_size", kernel_size, rank)]
    if pads is not None and any(one > half for one, half in zip(pads, halves, strict=True)):
        pads = None
    return image, pads, flat(both), last
