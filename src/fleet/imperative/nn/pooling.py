"""Layers without parameters that work on windows, and `Dropout`."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet.imperative.nn.layer import Layer
from fleet.imperative.tensor import Tensor

Sizes = int | list[int] | tuple[int, ...]


class MaxPool2D(Layer):
    """The greatest value of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self._settings = (kernel_size, stride, padding, return_mask, ceil_mode, data_format)

    def forward(self, x: torch.Tensor) -> Any:
        return F.max_pool2d(x, *self._settings)


class AvgPool2D(Layer):
    """The mean of each window; with `exclusive` zeros of the padding do not count."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: int | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self._settings = (kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.avg_pool2d(x, *self._settings)


class AdaptiveAvgPool2D(Layer):
    """The means of as many windows as `output_size` says."""

    def __init__(self, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(name)
        self._settings = (output_size, data_format)

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, *self._settings)


class Dropout(Layer):
    """While training, each value is zero with chance `p`."""

    def __init__(
        self, p: float = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None
    ) -> None:
        super().__init__(name)
        if not 0 <= p <= 1:
            raise UsageError(f"Dropout: p must be from 0 to 1, got {p}")
        self.p, self.axis, self.mode = p, axis, mode

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.dropout(x, self.p, self.axis, self.training, self.mode)
