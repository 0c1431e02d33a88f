"""Functions of images in programs, window by window: convolution, pooling, and `pad`, which makes room for windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.layers.windows import Sizes, channels_and_sizes, each, paddings
from fleet.static.ops.conv import is_channel_last
from fleet.static.variable import Variable
from fleet_paddle.programs.functional.called import called


def conv2d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """A convolution of images; `weight` is [filters, channels / groups, height, width]."""
    return _conv("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, data_format, name)


def conv3d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """A convolution of volumes."""
    return _conv("conv3d", 3, x, weight, bias, stride, padding, dilation, groups, data_format, name)


def conv1d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """A convolution of sequences: of images of height 1."""
    if data_format != "NCL":
        raise NotSupportedError(f"conv1d: data_format must be 'NCL' for a variable, got {data_format!r}; transpose it")
    step, rate = _wide(stride, 1), _wide(dilation, 1)
    flat, kernel = layers.unsqueeze(x, [2]), layers.unsqueeze(weight, [2])
    return layers.squeeze(conv2d(flat, kernel, bias, step, _wide_padding(padding), rate, groups, name=name), [2])


def _wide(size: Any, across: int) -> list[int]:
    """The size of something as long as a sequence says, and `across` high."""
    numbers = [size] if isinstance(size, int) else list(size)
    return [across] * len(numbers) + numbers


def _wide_padding(padding: Any) -> Any:
    """The same of a padding, which may be a word too."""
    return padding if isinstance(padding, str) else _wide(padding, 0)


def _conv(
    type: str,
    rank: int,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    stride: Sizes,
    padding: Any,
    dilation: Sizes,
    groups: int,
    data_format: str,
    name: str | None,
) -> Variable:
    layer = called(type, name)
    _, sizes = channels_and_sizes(layer, x, rank, data_format)
    kernel = list(layer.variable(weight, "weight").shape[2:])
    strides, dilations = each(layer, stride, rank, "stride", 1), each(layer, dilation, rank, "dilation", 1)
    way = padding.upper() if isinstance(padding, str) else padding
    attrs = {
        "strides": strides,
        "paddings": paddings(layer, way, sizes, kernel, strides, dilations),
        "dilations": dilations,
        "groups": int(groups),
        "data_format": data_format,
    }
    out = layer.temporary(x.dtype)
    layer.op(type, {"Input": x, "Filter": weight}, {"Output": out}, attrs)
    if bias is None:
        return out
    axis = out.ndim - 1 if is_channel_last(data_format) else 1
    return layer.apply("elementwise_add", {"X": out, "Y": bias}, {"axis": axis}, out.dtype)


def max_pool2d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The greatest value of each window."""
    if return_mask:
        raise NotSupportedError("max_pool2d: return_mask must be False for a variable; the places are not given out")
    return _pool(x, kernel_size, "max", stride, padding, ceil_mode, True, data_format, name)


def avg_pool2d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The mean of each window; with `exclusive` zeros of the padding do not count."""
    if divisor_override is not None:
        raise NotSupportedError("avg_pool2d: divisor_override must be left out for a variable; scale the result")
    return _pool(x, kernel_size, "avg", stride, padding, ceil_mode, exclusive, data_format, name)


def max_pool1d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """The greatest value of each window of a sequence."""
    step = kernel_size if stride is None else stride
    sizes = _wide(kernel_size, 1), _wide(step, 1), _wide_padding(padding)
    return layers.squeeze(max_pool2d(layers.unsqueeze(x, [2]), *sizes, return_mask, ceil_mode, name=name), [2])


def avg_pool1d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """The mean of each window of a sequence."""
    step = kernel_size if stride is None else stride
    sizes = _wide(kernel_size, 1), _wide(step, 1), _wide_padding(padding)
    return layers.squeeze(avg_pool2d(layers.unsqueeze(x, [2]), *sizes, ceil_mode, exclusive, name=name), [2])


def _pool(
    x: Variable,
    kernel_size: Sizes,
    kind: str,
    stride: Sizes | None,
    padding: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    name: str | None,
) -> Variable:
    step, way = kernel_size if stride is None else stride, padding.upper() if isinstance(padding, str) else padding
    return layers.pool2d(
        x, kernel_size, kind, step, way, ceil_mode=ceil_mode, name=name, exclusive=exclusive, data_format=data_format
    )


def adaptive_avg_pool2d(x: Variable, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """The means of as many windows as `output_size` says."""
    return _adaptive(x, output_size, "avg", data_format, name)


def adaptive_max_pool2d(x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None) -> Variable:
    """The greatest values of as many windows as `output_size` says."""
    if return_mask:
        raise NotSupportedError("adaptive_max_pool2d: return_mask must be False for a variable")
    return _adaptive(x, output_size, "max", "NCHW", name)


def _adaptive(x: Variable, output_size: Any, kind: str, data_format: str, name: str | None) -> Variable:
    if data_format != "NCHW":
        raise NotSupportedError(
            f"adaptive_{kind}_pool2d: data_format must be 'NCHW', got {data_format!r}; transpose it"
        )
    wanted = [output_size] * 2 if output_size is None or isinstance(output_size, int) else list(output_size)
    sizes = [size if one is None else one for one, size in zip(wanted, x.shape[2:], strict=False)]
    return layers.adaptive_pool2d(x, sizes, kind, name=name)


def pad(
    x: Variable,
    pad: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """More values on each side: a pair for every dimension from the first on, or for those of an image, width first."""
    if mode != "constant":
        raise NotSupportedError(f"pad: mode must be 'constant' for a variable, got {mode!r}")
    numbers = [int(one) for one in pad]
    pairs = [numbers[place : place + 2] for place in range(0, len(numbers), 2)]
    if len(numbers) % 2 or len(pairs) not in (x.ndim, x.ndim - 2):
        raise UsageError(f"pad: pad must have {2 * (x.ndim - 2)} or {2 * x.ndim} numbers for {x.name!r}, got {numbers}")
    if len(pairs) == x.ndim - 2:
        is_last = is_channel_last(data_format) or data_format == "NLC"
        pairs = [[0, 0], *reversed(pairs), [0, 0]] if is_last else [[0, 0], [0, 0], *reversed(pairs)]
    return layers.pad(x, [one for pair in pairs for one in pair], value, name)
