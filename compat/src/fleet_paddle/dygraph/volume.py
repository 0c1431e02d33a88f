"""Convolutions of volumes, as version 1.8 spells them."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.dygraph.weighted import REST, Convolution
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it


class Conv3D(Convolution):
    """A convolution of volumes: the filter is [num_filters, num_channels / groups, depth, height, width]."""

    rank = 3
    takes = f"num_channels, num_filters, filter_size, stride=1, padding=0, {REST}"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self._settings = (given.stride, given.padding, given.dilation, self._groups)

    def forward(self, input: torch.Tensor) -> Any:
        return self.acted(F.conv3d(input, self.weight, self.bias, *self._settings))


class Conv3DTranspose(Convolution):
    """The transpose of a convolution; the filter is [num_channels, num_filters / groups, depth, height, width]."""

    rank = 3
    takes = f"num_channels, num_filters, filter_size, padding=0, stride=1, {REST}"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self._window = (given.stride, given.padding)
        self._settings = {"dilation": given.dilation, "groups": self._groups}

    def filled(self, num_channels: int, num_filters: int) -> tuple[list[int], Any]:
        return [num_channels, num_filters // self._groups], None

    def forward(self, input: torch.Tensor) -> Any:
        return self.acted(F.conv3d_transpose(input, self.weight, self.bias, *self._window, **self._settings))
