"""The transpose of a convolution: what enlarges images again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static.layers.helper import LayerBuilder
from fleet.static.layers.windows import Sizes, channels_and_sizes, each, finish, grouped, window_attrs
from fleet.static.variable import Variable

__all__ = ["conv2d_transpose"]


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Sizes | None = None,
    filter_size: Sizes | None = None,
    padding: Sizes | str = 0,
    stride: Sizes = 1,
    dilation: Sizes = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,  # noqa: ARG001 - torch chooses
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """The transpose of a convolution: images become larger. `filter_size` follows from `output_size` if left out."""
    layer = LayerBuilder("conv2d_transpose", name)
    channels, sizes = channels_and_sizes(layer, input, 2, data_format)
    parts = grouped(layer, channels, num_filters, groups)
    if padding == "SAME":
        raise NotSupportedError("conv2d_transpose: padding 'SAME' is not built; give numbers")
    attrs = window_attrs(layer, sizes, [1, 1], (stride, padding, dilation), parts, data_format)
    strides, pads, dilations = attrs["strides"], attrs["paddings"], attrs["dilations"]
    wanted = None if output_size is None else each(layer, output_size, 2, "output_size", 1)
    if wanted is not None and any(size < 0 for size in sizes):
        raise layer.error(f"output_size needs an input of known sizes, got shape {list(input.shape)}; give filter_size")
    begins = [(size - 1) * step - 2 * pad for size, step, pad in zip(sizes, strides, pads, strict=True)]
    kernel = _kernel(layer, filter_size, wanted, begins, dilations)
    extra = [0, 0] if wanted is None else _output_padding(layer, wanted, begins, dilations, kernel, strides)
    attrs["output_padding"] = extra
    shape = [channels, num_filters // parts, *kernel]
    return finish(layer, "conv2d_transpose", input, shape, num_filters, attrs, (param_attr, bias_attr), act, None)


def _kernel(
    layer: LayerBuilder,
    filter_size: Sizes | None,
    wanted: Sequence[int] | None,
    begins: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """The sizes of the filter: those that are given, or those that give what is wanted."""
    if filter_size is not None:
        return each(layer, filter_size, 2, "filter_size", 1)
    if wanted is None:
        raise layer.error("filter_size or output_size must be given")
    return [(out - begin - 1) // rate + 1 for out, begin, rate in zip(wanted, begins, dilations, strict=True)]


def _output_padding(
    layer: LayerBuilder,
    wanted: Sequence[int],
    begins: Sequence[int],
    dilations: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> list[int]:
    """What is wanted beyond the least size that the filters reach; less than a stride."""
    least = [begin + rate * (side - 1) + 1 for begin, rate, side in zip(begins, dilations, kernel, strict=True)]
    extra = [out - low for out, low in zip(wanted, least, strict=True)]
    if any(not 0 <= more < step for more, step in zip(extra, strides, strict=True)):
        most = [low + step - 1 for low, step in zip(least, strides, strict=True)]
        raise layer.error(f"output_size must be from {least} to {most}, got {wanted}")
    return extra
