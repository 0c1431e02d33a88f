"""Groups of layers that models use again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.programs.layers.ragged.sequence import sequence_conv
from fleet_programs.layers.images.conv import conv2d
from fleet_programs.layers.images.pool import pool2d
from fleet_programs.layers.images.windows import Sizes
from fleet_programs.layers.nn import dropout, fc
from fleet_programs.layers.norm import batch_norm
from fleet_programs.layers.sequence import sequence_pool
from fleet_programs.layers.shaping import split
from fleet_programs.layers.table import elementwise_mul, matmul, reshape, scale, sigmoid, softmax, transpose
from fleet_programs.program.variable import Variable


def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: Sizes,
    pool_size: Sizes,
    pool_stride: Sizes,
    pool_padding: Sizes = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Sizes = 1,
    conv_padding: Sizes = 0,
    conv_dilation: Sizes = 1,
    conv_groups: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """One convolution and one pooling."""
    convolved = conv2d(
        input,
        num_filters,
        filter_size,
        stride=conv_stride,
        padding=conv_padding,
        dilation=conv_dilation,
        groups=conv_groups,
        param_attr=param_attr,
        bias_attr=bias_attr,
        use_cudnn=use_cudnn,
        act=act,
    )
    return pool2d(convolved, pool_size, pool_type, pool_stride, pool_padding, global_pooling, use_cudnn)


def img_conv_group(
    input: Variable,
    conv_num_filter: Sequence[int],
    pool_size: Sizes,
    conv_padding: int | Sequence[int] = 1,
    conv_filter_size: int | Sequence[int] = 3,
    conv_act: str | None = None,
    param_attr: Any = None,
    conv_with_batchnorm: bool | Sequence[bool] = False,
    conv_batchnorm_drop_rate: float | Sequence[float] = 0.0,
    pool_stride: Sizes = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """Several convolutions, with batch normalisation and dropout where asked for, and one pooling.

    Every setting of a convolution may be a list, one for each number in `conv_num_filter`.
    """
    if not isinstance(conv_num_filter, list | tuple):
        raise UsageTypeError(f"img_conv_group: conv_num_filter must be a list, got {type(conv_num_filter).__name__}")
    count = len(conv_num_filter)
    paddings, sizes = _each(conv_padding, count, "conv_padding"), _each(conv_filter_size, count, "conv_filter_size")
    attrs = _each(param_attr, count, "param_attr")
    normed = _each(conv_with_batchnorm, count, "conv_with_batchnorm")
    rates = _each(conv_batchnorm_drop_rate, count, "conv_batchnorm_drop_rate")
    image = input
    for index, num_filters in enumerate(conv_num_filter):
        image = conv2d(
            image,
            num_filters,
            sizes[index],
            padding=paddings[index],
            param_attr=attrs[index],
            use_cudnn=use_cudnn,
            act=None if normed[index] else conv_act,
        )
        if normed[index]:
            image = batch_norm(image, act=conv_act)
            if rates[index] > 0:
                image = dropout(image, rates[index])
    return pool2d(image, pool_size, pool_type, pool_stride, use_cudnn=use_cudnn)


def _each(value: Any, count: int, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise UsageError(
            f"img_conv_group: {what} must be one, or one for each of {count} convolutions, got {len(value)}"
        )
    return list(value)


def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: Any = None,
    act: str | None = "sigmoid",
    pool_type: str = "max",
    bias_attr: Any = None,
) -> Variable:
    """A convolution along each row of a ragged batch, and one value of each row."""
    convolved = sequence_conv(input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act)
    return sequence_pool(convolved, pool_type)


def glu(input: Variable, dim: int = -1) -> Variable:
    """The first half along `dim`, times the sigmoid of the second."""
    values, gate = split(input, 2, dim)
    return elementwise_mul(values, sigmoid(gate))


def scaled_dot_product_attention(
    queries: Variable, keys: Variable, values: Variable, num_heads: int = 1, dropout_rate: float = 0.0
) -> Variable:
    """Attention: for each query the mean of the values, weighted by how well their keys fit.

    All are [batch, length, width]. With several heads each is projected first, and each head sees a part of its width.
    """
    for what, one in (("queries", queries), ("keys", keys), ("values", values)):
        if one.ndim != 3:
            raise UsageError(f"attention: {what} must be [batch, length, width], got shape {list(one.shape)}")
    if queries.shape[-1] != keys.shape[-1]:
        raise UsageError(f"attention: queries are {queries.shape[-1]} wide and keys {keys.shape[-1]}; make them alike")
    if num_heads < 1 or keys.shape[-1] % num_heads or values.shape[-1] % num_heads:
        raise UsageError(
            f"attention: num_heads must divide the widths {keys.shape[-1]} and {values.shape[-1]}, got {num_heads}"
        )
    q, k, v = (_head(one, num_heads) for one in (queries, keys, values))
    fit = matmul(scale(q, (keys.shape[-1] // num_heads) ** -0.5), k, transpose_y=True)
    weights = softmax(fit)
    if dropout_rate:
        weights = dropout(weights, dropout_rate)
    found = matmul(weights, v)
    if num_heads == 1:
        return found
    return reshape(transpose(found, [0, 2, 1, 3]), [0, 0, values.shape[-1]])


def _head(var: Variable, num_heads: int) -> Variable:
    """[batch, length, width], or [batch, head, length, part of the width]."""
    if num_heads == 1:
        return var
    width = var.shape[-1]
    projected = fc(var, width, num_flatten_dims=2)
    return transpose(reshape(projected, [0, 0, num_heads, width // num_heads]), [0, 2, 1, 3])
