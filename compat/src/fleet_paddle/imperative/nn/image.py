"""Images of other sizes, as layers: padding, more or fewer pixels."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.layer import Layer

__all__ = [
    "Pad1D",
    "Pad2D",
    "Pad3D",
    "UpsamplingBilinear2D",
    "UpsamplingNearest2D",
]


class _Pad(Layer):
    """More values on each side: one number for all, or those of the last dimension first."""

    def __init__(
        self, padding: Any, mode: str = "constant", value: float = 0.0, data_format: str = "", name: str | None = None
    ) -> None:
        super().__init__(name)
        self._settings = (padding, mode, value, data_format)

    def forward(self, x: torch.Tensor) -> Any:
        return F.pad(x, *self._settings)


class Pad1D(_Pad):
    """More values on each side of sequences, [batch, channels, length]."""


class Pad2D(_Pad):
    """More values on each side of images, [batch, channels, height, width]."""


class Pad3D(_Pad):
    """More values on each side of volumes, [batch, channels, depth, height, width]."""


class UpsamplingNearest2D(Layer):
    """Another size: each pixel is the nearest one of the input."""

    def __init__(
        self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(name)
        self._settings = (size, scale_factor, "nearest", False, 0, data_format)

    def forward(self, x: torch.Tensor) -> Any:
        return F.interpolate(x, *self._settings)


class UpsamplingBilinear2D(UpsamplingNearest2D):
    """Another size: each pixel is a mean of four of the input, the corners are the same."""

    def __init__(
        self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(size, scale_factor, data_format, name)
        self._settings = (size, scale_factor, "bilinear", True, 0, data_format)
