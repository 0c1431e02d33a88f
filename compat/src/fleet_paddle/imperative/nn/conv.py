"""Convolutions as layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.tensor import Tensor
from fleet_paddle.rows.window import FORMATS, each
from fleet_programs.parameters.initializer import Normal

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}
_WINDOW = "in_channels, out_channels, kernel_size, stride=1, padding=0"
_REST = "weight_attr=None, bias_attr=None, data_format=None"


class _Convolution(TakingLayer):
    """What all of them have: a filter of `rank` sizes and a bias."""

    rank: ClassVar[int]
    weight: Any

    def make_of(self, given: Any) -> None:
        kind, groups, channels = type(self).__name__, given.groups, (given.in_channels, given.out_channels)
        if groups < 1 or any(one % groups for one in channels):
            raise UsageError(f"{kind}: groups must divide {channels[0]} and {channels[1]} channels, got {groups}")
        sides = each(f"{kind}: kernel_size", given.kernel_size, self.rank)
        first = self.first(math.prod(sides) * channels[0])
        self.weight = self.create_parameter(
            [*self.ways(*channels, groups), *sides], given.weight_attr, default_initializer=first
        )
        if self.weight is None:
            raise UsageError(f"{kind}: weight_attr must not be False; a weight is what the layer is")
        self.bias = self.create_parameter([channels[1]], given.bias_attr, is_bias=True)
        self._format = given.data_format or FORMATS[self.rank][0]

    @abstractmethod
    def ways(self, num_in: int, num_out: int, groups: int) -> tuple[int, int]:
        """The shape of the filter without its sizes."""

    def first(self, fan_in: int) -> Any:
        """What fills a filter unless its attribute says so; None is what fills any weight."""
        return Normal(0.0, math.sqrt(2.0 / fan_in))

    def extra_repr(self) -> str:
        return f"filter={list(self.weight.shape)}"


class _Forward(_Convolution):
    """A convolution: the filter is [out_channels, in_channels / groups, sizes...].

    Other modes of padding than zeros take the values from the input.
    """

    takes = f"{_WINDOW}, dilation=1, groups=1, padding_mode='zeros', {_REST}"

    def make_of(self, given: Any) -> None:
        kind, mode, padding = type(self).__name__, given.padding_mode, given.padding
        if mode not in _MODES:
            raise UsageError(f"{kind}: padding_mode must be one of {', '.join(_MODES)}, got {mode!r}")
        super().make_of(given)
        self._padding_mode, self._around = _MODES[mode], None
        if mode != "zeros":
            if isinstance(padding, str):
                raise NotSupportedError(f"{kind}: padding {padding!r} takes padding_mode 'zeros'; give numbers")
            pads = each(f"{kind}: padding", padding, self.rank)
            self._around, padding = [one for pad in reversed(pads) for one in (pad, pad)], 0
        self._settings = (given.stride, padding, given.dilation, given.groups, self._format)

    def ways(self, num_in: int, num_out: int, groups: int) -> tuple[int, int]:
        return num_out, num_in // groups

    def forward(self, x: torch.Tensor) -> Tensor:
        if self._around is not None:
            x = F.pad(x, self._around, self._padding_mode, data_format=self._format)
        made: Tensor = _FORWARD[self.rank](x, self.weight, self.bias, *self._settings)
        return made


class _Transposed(_Convolution):
    """A transposed convolution: the filter is [in_channels, out_channels / groups, sizes...]."""

    takes = f"{_WINDOW}, output_padding=0, dilation=1, groups=1, {_REST}"

    def make_of(self, given: Any) -> None:
        super().make_of(given)
        self._window = (given.stride, given.padding, given.output_padding)
        self._settings = {"dilation": given.dilation, "groups": given.groups, "data_format": self._format}

    def ways(self, num_in: int, num_out: int, groups: int) -> tuple[int, int]:
        return num_in, num_out // groups

    def first(self, fan_in: int) -> Any:  # noqa: ARG002
        return None

    def forward(self, x: torch.Tensor, output_size: Any = None) -> Tensor:
        window = self._window if output_size is None else (*self._window[:2], 0)
        made: Tensor = _BACK[self.rank](x, self.weight, self.bias, *window, output_size=output_size, **self._settings)
        return made


_FORWARD: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_BACK: dict[int, Any] = {1: F.conv1d_transpose, 2: F.conv2d_transpose, 3: F.conv3d_transpose}


class Conv1D(_Forward):
    """A convolution of sequences, [batch, channels, length]."""

    rank = 1


class Conv2D(_Forward):
    """A convolution of images, [batch, channels, height, width]."""

    rank = 2


class Conv3D(_Forward):
    """A convolution of volumes, [batch, channels, depth, height, width]."""

    rank = 3


class Conv1DTranspose(_Transposed):
    """A transposed convolution of sequences; `groups` comes before `dilation`, as 2.0 has it here alone."""

    rank = 1
    takes = f"{_WINDOW}, output_padding=0, groups=1, dilation=1, {_REST}"


class Conv2DTranspose(_Transposed):
    """A transposed convolution of images."""

    rank = 2


class Conv3DTranspose(_Transposed):
    """A transposed convolution of volumes."""

    rank = 3
