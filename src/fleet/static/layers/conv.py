"""Convolutions over images and volumes."""

from __future__ import annotations

from math import prod
from typing import Any

from fleet.static.initializer import Normal
from fleet.static.layers.helper import Layer
from fleet.static.layers.windows import Sizes, channels_and_sizes, each, finish, paddings
from fleet.static.variable import Variable

__all__ = ["conv2d", "conv3d"]


def conv2d(
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
    data_format: str = "NCHW",
) -> Variable:
    """A convolution over images. As many `groups` as channels make it a depthwise one.

    `padding` is "SAME", "VALID", a number, or one for each dimension; as many zeros come before as after.
    """
    return _conv(
        "conv2d",
        2,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        (param_attr, bias_attr),
        act,
        name,
        data_format,
    )


def conv3d(
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
    data_format: str = "NCDHW",
) -> Variable:
    """A convolution over volumes; `conv2d` says the rest."""
    return _conv(
        "conv3d",
        3,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        (param_attr, bias_attr),
        act,
        name,
        data_format,
    )


def _conv(
    type: str,
    rank: int,
    input: Variable,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int | None,
    attr: tuple[Any, Any],
    act: str | None,
    name: str | None,
    data_format: str,
) -> Variable:
    layer = Layer(type, name)
    channels, sizes = channels_and_sizes(layer, input, rank, data_format)
    groups = 1 if groups is None else groups
    if groups < 1 or channels % groups or num_filters % groups:
        raise layer.error(f"groups must divide {channels} channels and {num_filters} filters, got {groups}")
    kernel = each(layer, filter_size, rank, "filter_size", 1)
    strides, dilations = each(layer, stride, rank, "stride", 1), each(layer, dilation, rank, "dilation", 1)
    attrs = {
        "strides": strides,
        "paddings": paddings(layer, padding, sizes, kernel, strides, dilations),
        "dilations": dilations,
        "groups": groups,
        "data_format": data_format,
    }
    default = Normal(0.0, (2.0 / (prod(kernel) * channels)) ** 0.5)
    return finish(
        layer,
        type,
        input,
        [num_filters, channels // groups, *kernel],
        num_filters,
        attrs,
        attr,
        act,
        default,
    )
