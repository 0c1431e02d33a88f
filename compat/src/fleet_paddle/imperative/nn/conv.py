"""Convolutions as layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet.static.initializer import Normal
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.layer import Layer
from fleet_paddle.imperative.tensor import Tensor
from fleet_paddle.rows.window import Sizes, each

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Convolution(Layer):
    """What all of them have: a filter of `rank` sizes and a bias."""

    rank: ClassVar[int]
    weight: Any

    def make(self, kernel_size: Sizes, shape: tuple[int, int], channels: tuple[int, int], groups: int) -> list[int]:
        """The shape of the filter, after a look at the number of groups."""
        kind = type(self).__name__
        if groups < 1 or any(one % groups for one in channels):
            raise UsageError(f"{kind}: groups must divide {channels[0]} and {channels[1]} channels, got {groups}")
        return [*shape, *each(f"{kind}: kernel_size", kernel_size, self.rank)]

    def filled(self, shape: list[int], weight_attr: Any, bias_attr: Any, outputs: int, default: Any) -> None:
        """Make filter and bias."""
        self.weight = self.create_parameter(shape, weight_attr, default_initializer=default)
        if self.weight is None:
            raise UsageError(f"{type(self).__name__}: weight_attr must not be False; a weight is what the layer is")
        self.bias = self.create_parameter([outputs], bias_attr, is_bias=True)

    def extra_repr(self) -> str:
        return f"filter={list(self.weight.shape)}"


class _Forward(_Convolution):
    """A convolution: the filter is [out_channels, in_channels / groups, sizes...].

    Other modes of padding than zeros take the values from the input.
    """

    function: ClassVar[Callable[..., Tensor]]
    formats: ClassVar[tuple[str, str]]

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
        shape = self.make(
            kernel_size, (out_channels, in_channels // max(groups, 1)), (in_channels, out_channels), groups
        )
        spread = math.sqrt(2.0 / (math.prod(shape[2:]) * in_channels))
        self.filled(shape, weight_attr, bias_attr, out_channels, Normal(0.0, spread))
        self._padding_mode, self._around = _MODES[padding_mode], None
        self._format = data_format or self.formats[0]
        if padding_mode != "zeros":
            if isinstance(padding, str):
                raise NotSupportedError(f"{kind}: padding {padding!r} takes padding_mode 'zeros'; give numbers")
            pads = each(f"{kind}: padding", padding, self.rank)
            self._around, padding = [one for pad in reversed(pads) for one in (pad, pad)], 0
        self._settings = (stride, padding, dilation, groups, self._format)

    def forward(self, x: torch.Tensor) -> Tensor:
        if self._around is not None:
            x = F.pad(x, self._around, self._padding_mode, data_format=self._format)
        return type(self).function(x, self.weight, self.bias, *self._settings)


class Conv1D(_Forward):
    """A convolution of sequences, [batch, channels, length]."""

    rank, function, formats = 1, staticmethod(F.conv1d), ("NCL", "NLC")


class Conv2D(_Forward):
    """A convolution of images, [batch, channels, height, width]."""

    rank, function, formats = 2, staticmethod(F.conv2d), ("NCHW", "NHWC")


class Conv3D(_Forward):
    """A convolution of volumes, [batch, channels, depth, height, width]."""

    rank, function, formats = 3, staticmethod(F.conv3d), ("NCDHW", "NDHWC")


class _Transposed(_Convolution):
    """A transposed convolution: the filter is [in_channels, out_channels / groups, sizes...]."""

    function: ClassVar[Callable[..., Tensor]]
    formats: ClassVar[tuple[str, str]]

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
        shape = self.make(
            kernel_size, (in_channels, out_channels // max(groups, 1)), (in_channels, out_channels), groups
        )
        self.filled(shape, weight_attr, bias_attr, out_channels, None)
        self._settings = {
            "stride": stride,
            "padding": padding,
            "output_padding": output_padding,
            "dilation": dilation,
            "groups": groups,
            "data_format": data_format or self.formats[0],
        }

    def forward(self, x: torch.Tensor, output_size: Any = None) -> Tensor:
        settings = self._settings if output_size is None else {**self._settings, "output_padding": 0}
        return type(self).function(x, self.weight, self.bias, output_size=output_size, **settings)


class Conv1DTranspose(_Transposed):
    """A transposed convolution of sequences."""

    rank, function, formats = 1, staticmethod(F.conv1d_transpose), ("NCL", "NLC")

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
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
    ) -> None:
        window = (kernel_size, stride, padding, output_padding, dilation)
        super().__init__(in_channels, out_channels, *window, groups, weight_attr, bias_attr, data_format)


class Conv2DTranspose(_Transposed):
    """A transposed convolution of images."""

    rank, function, formats = 2, staticmethod(F.conv2d_transpose), ("NCHW", "NHWC")


class Conv3DTranspose(_Transposed):
    """A transposed convolution of volumes."""

    rank, function, formats = 3, staticmethod(F.conv3d_transpose), ("NCDHW", "NDHWC")
