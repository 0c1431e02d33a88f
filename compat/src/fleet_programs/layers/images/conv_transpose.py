"""The transpose of a convolution: what enlarges images again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.images.windows import (
    Sizes,
    channels_and_sizes,
    each,
    finish,
    grouped,
    output_padding,
    window_attrs,
    without_reach,
)
from fleet_programs.program.variable import Variable

__all__ = ["conv2d_transpose", "conv3d_transpose"]


def _transposed(type: str, rank: int, layout: str) -> Callable[..., Variable]:
    """The layer for so many dimensions, whose channels are where `layout` says."""

    def enlarge(
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
        data_format: str = layout,
    ) -> Variable:
        """The transpose of a convolution: it makes larger. `filter_size` follows from `output_size` if left out.

        `padding` is what goes on each side, given as that of a convolution.
        """
        layer = LayerBuilder(type, name)
        channels, sizes = channels_and_sizes(layer, input, rank, data_format)
        parts = grouped(layer, channels, num_filters, groups)
        wanted = None if output_size is None else each(layer, output_size, rank, "output_size", 1)
        if wanted is not None and any(size < 0 for size in sizes):
            raise layer.error(
                f"output_size needs an input of known sizes, got shape {list(input.shape)}; give filter_size"
            )
        if filter_size is None and isinstance(padding, str):
            raise layer.error(f"filter_size must be given with padding {padding!r}")
        kernel = [1] * rank if filter_size is None else each(layer, filter_size, rank, "filter_size", 1)
        attrs = window_attrs(layer, sizes, kernel, (stride, padding, dilation), parts, data_format)
        if filter_size is None:
            kernel = _kernel(layer, wanted, sizes, attrs)
        attrs["output_padding"] = [0] * rank if wanted is None else output_padding(layer, wanted, sizes, kernel, attrs)
        shape = [channels, num_filters // parts, *kernel]
        return finish(layer, type, input, shape, num_filters, attrs, (param_attr, bias_attr), act, None)

    enlarge.__name__ = enlarge.__qualname__ = type
    return enlarge


conv2d_transpose = _transposed("conv2d_transpose", 2, "NCHW")
conv3d_transpose = _transposed("conv3d_transpose", 3, "NCDHW")


def _kernel(
    layer: LayerBuilder, wanted: Sequence[int] | None, sizes: Sequence[int], attrs: Mapping[str, Any]
) -> list[int]:
    """The sizes of the filter that give what is wanted."""
    if wanted is None:
        raise layer.error("filter_size or output_size must be given")
    begins = zip(wanted, without_reach(sizes, attrs), attrs["dilations"], strict=True)
    return [(out - begin - 1) // rate + 1 for out, begin, rate in begins]
