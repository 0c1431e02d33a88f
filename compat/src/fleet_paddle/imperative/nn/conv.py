"""Convolutions as layers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.static.initializer import Normal
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.tensor import Tensor
from fleet_paddle.rows.window import FORMATS, Sizes, each

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Convolution(Layer):
    """What all of them have: a filter of `rank` sizes and a bias."""

    rank: ClassVar[int]
    weight: Any

    def make(
        self, channels: tuple[int, int], shape: list[int], kernel: Sizes, groups: int, attrs: tuple[Any, Any]
    ) -> None:
        """Make filter and bias; `shape` is that of the filter without its sizes, `channels` those in and out."""
        kind = type(self).__name__
        if groups < 1 or any(one % groups for one in channels):
            raise UsageError(f"{kind}: groups must divide {channels[0]} and {channels[1]} channels, got {groups}")
        sides = each(f"{kind}: kernel_size", kernel, self.rank)
        self.weight = self.create_parameter(
            [*shape, *sides], attrs[0], default_initializer=self.first(math.prod(sides) * channels[0])
        )
        if self.weight is None:
            raise UsageError(f"{kind}: weight_attr must not be False; a weight is what the layer is")
        self.bias = self.create_parameter([channels[1]], attrs[1], is_bias=True)

    def first(self, fan_in: int) -> Any:
        """What fills a filter unless its attribute says so; None is what fills any weight."""
        return Normal(0.0, math.sqrt(2.0 / fan_in))

    def extra_repr(self) -> str:
        return f"filter={list(self.weight.shape)}"


class _Forward(_Convolution):
    """A convolution: the filter is [out_channels, in_channels / groups, sizes...].

    Other modes of padding than zeros take the values from the input.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        if padding_mode not in _MODES:
            raise UsageError(f"{kind}: padding_mode must be one of {', '.join(_MODES)}, got {padding_mode!r}")
        shape = [out_channels, in_channels // max(groups, 1)]
        self.make((in_channels, out_channels), shape, kernel_size, groups, (weight_attr, bias_attr))
        self._padding_mode, self._around = _MODES[padding_mode], None
        self._format = data_format or FORMATS[self.rank][0]
        if padding_mode != "zeros":
            if isinstance(padding, str):
                raise NotSupportedError(f"{kind}: padding {padding!r} takes padding_mode 'zeros'; give numbers")
            pads = each(f"{kind}: padding", padding, self.rank)
            self._around, padding = [one for pad in reversed(pads) for one in (pad, pad)], 0
        self._settings = (stride, padding, dilation, groups, self._format)

    def forward(self, x: torch.Tensor) -> Tensor:
        if self._around is not None:
            x = F.pad(x, self._around, self._padding_mode, data_format=self._format)
        made: Tensor = _FORWARD[self.rank](x, self.weight, self.bias, *self._settings)
        return made


class _Transposed(_Convolution):
    """A transposed convolution: the filter is [in_channels, out_channels / groups, sizes...]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
    ) -> None:
        super().__init__()
        shape = [in_channels, out_channels // max(groups, 1)]
        self.make((in_channels, out_channels), shape, kernel_size, groups, (weight_attr, bias_attr))
        self._window = (stride, padding, output_padding)
        self._settings = {"dilation": dilation, "groups": groups, "data_format": data_format or FORMATS[self.rank][0]}

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

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
        *attrs: Any,
        **named: Any,
    ) -> None:
        window = (kernel_size, stride, padding, output_padding)
        super().__init__(in_channels, out_channels, *window, dilation, groups, *attrs, **named)


class Conv2DTranspose(_Transposed):
    """A transposed convolution of images."""

    rank = 2


class Conv3DTranspose(_Transposed):
    """A transposed convolution of volumes."""

    rank = 3
