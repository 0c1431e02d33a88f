"""Convolutions over images and volumes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.images.windows import Sizes, channels_and_sizes, each, finish, grouped, window_attrs
from fleet_programs.parameters.initializer import Normal
from fleet_programs.program.variable import Variable

__all__ = ["conv2d", "conv3d"]


def _convolution(type: str, rank: int, layout: str) -> Callable[..., Variable]:
    """The layer for so many dimensions, whose channels are where `layout` says."""

    def convolve(
        input: Variable,
        num_filters: int,
        filter_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,  # noqa: ARG001 - torch chooses
        act: str | None = None,
        name: str | None = None,
        data_format: str = layout,
    ) -> Variable:
        """A convolution. As many `groups` as channels make it a depthwise one.

        `padding` is "SAME", "VALID", a number, one for each dimension, or two: zeros before and after.
        """
        layer = LayerBuilder(type, name)
        channels, sizes = channels_and_sizes(layer, input, rank, data_format)
        parts = grouped(layer, channels, num_filters, groups)
        kernel = each(layer, filter_size, rank, "filter_size", 1)
        attrs = window_attrs(layer, sizes, kernel, (stride, padding, dilation), parts, data_format)
        shape, default = (
            [num_filters, channels // parts, *kernel],
            Normal(0.0, (2.0 / (prod(kernel) * channels)) ** 0.5),
        )
        return finish(layer, type, input, shape, num_filters, attrs, (param_attr, bias_attr), act, default)

    convolve.__name__ = convolve.__qualname__ = type
    return convolve


conv2d = _convolution("conv2d", 2, "NCHW")
conv3d = _convolution("conv3d", 3, "NCDHW")
