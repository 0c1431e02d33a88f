"""Dropout as layers."""

from __future__ import annotations

from typing import Any

from fleet.errors import UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.of_function import FunctionLayer

__all__ = ["AlphaDropout", "Dropout", "Dropout2D", "Dropout3D"]


class _Dropout(FunctionLayer):
    """While training, each of something is zero with probability `p`."""

    p: float

    def __init__(self, *settings: Any, **named: Any) -> None:
        super().__init__(*settings, **named)
        if not 0 <= self.p <= 1:
            raise UsageError(f"{type(self).__name__}: p must be from 0 to 1, got {self.p}")


class Dropout(_Dropout):
    """While training, each value is zero with probability `p`."""

    function = staticmethod(F.dropout)


class Dropout2D(_Dropout):
    """While training, each channel of each image is zero with probability `p`."""

    function = staticmethod(F.dropout2d)


class Dropout3D(_Dropout):
    """While training, each channel of each volume is zero with probability `p`."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """While training, each value has selu's lowest with probability `p`; mean and variance stay what they were."""

    function = staticmethod(F.alpha_dropout)
