"""Dropout as layers."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout2D", "Dropout3D"]


class Dropout(Layer):
    """While training, each value is zero with chance `p`."""

    def __init__(
        self, p: float = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None
    ) -> None:
        super().__init__(name)
        _check(self, p)
        self.p, self.axis, self.mode = p, axis, mode

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.dropout(x, self.p, self.axis, self.training, self.mode)


class _Channels(Layer):
    """While training, each of something is zero with chance `p`."""

    def __init__(self, p: float = 0.5, data_format: str | None = None, name: str | None = None) -> None:
        super().__init__(name)
        _check(self, p)
        self.p, self._format = p, {} if data_format is None else {"data_format": data_format}


class Dropout2D(_Channels):
    """While training, each channel of each image is zero with chance `p`."""

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.dropout2d(x, self.p, self.training, **self._format)


class Dropout3D(_Channels):
    """While training, each channel of each volume is zero with chance `p`."""

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.dropout3d(x, self.p, self.training, **self._format)


class AlphaDropout(Layer):
    """While training, each value has selu's lowest with chance `p`; mean and variance stay what they were."""

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        _check(self, p)
        self.p = p

    def forward(self, x: torch.Tensor) -> Tensor:
        return F.alpha_dropout(x, self.p, self.training)


def _check(layer: Layer, p: float) -> None:
    if not 0 <= p <= 1:
        raise UsageError(f"{type(layer).__name__}: p must be from 0 to 1, got {p}")
