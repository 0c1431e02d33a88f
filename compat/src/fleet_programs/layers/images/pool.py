"""Pooling over images and volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.images.windows import Sizes, add_pool, channels_and_sizes, each, padding_attrs
from fleet_programs.program.variable import Variable

__all__ = ["adaptive_pool2d", "adaptive_pool3d", "pool2d", "pool3d"]


def _pooling(type: str, rank: int, layout: str) -> Callable[..., Variable]:
    """The layer for so many dimensions, whose channels are where `layout` says."""

    def pool(
        input: Variable,
        pool_size: Sizes = -1,
        pool_type: str = "max",
        pool_stride: Sizes = 1,
        pool_padding: Sizes | str = 0,
        global_pooling: bool = False,
        use_cudnn: bool = True,  # noqa: ARG001 - torch chooses
        ceil_mode: bool = False,
        name: str | None = None,
        exclusive: bool = True,
        data_format: str = layout,
    ) -> Variable:
        """The greatest ("max") or the mean ("avg") of each window; with `global_pooling` of the whole image.

        `exclusive` means do not count the padding. `ceil_mode` keeps a window that hangs over the end.
        """
        layer = LayerBuilder(type, name)
        _, sizes = channels_and_sizes(layer, input, rank, data_format)
        if not global_pooling and pool_size == -1:
            raise layer.error("pool_size must be given unless global_pooling is True")
        kernel = [1] * rank if global_pooling else each(layer, pool_size, rank, "pool_size", 1)
        strides = each(layer, pool_stride, rank, "pool_stride", 1)
        padding = 0 if global_pooling else pool_padding
        attrs = {
            "ksize": kernel,
            "strides": strides,
            **padding_attrs(layer, padding, sizes, kernel, strides, [1] * rank, data_format),
            "global_pooling": bool(global_pooling),
            "ceil_mode": bool(ceil_mode),
            "exclusive": bool(exclusive),
            "data_format": data_format,
        }
        return add_pool(layer, type, input, pool_type, attrs)[0]

    pool.__name__ = pool.__qualname__ = type
    return pool


def _adapting(type: str, rank: int, layout: str) -> Callable[..., Any]:
    def pool(
        input: Variable, pool_size: Sizes, pool_type: str = "max", require_index: bool = False, name: str | None = None
    ) -> Any:
        """Pooling with the windows that give an output of size `pool_size`.

        With `require_index`, of pool_type "max", also the place of each greatest value in its image.
        """
        layer = LayerBuilder(f"adaptive_{type}", name)
        if require_index and pool_type != "max":
            raise layer.error(f"require_index is for pool_type 'max', got {pool_type!r}")
        channels_and_sizes(layer, input, rank, layout)
        attrs = {"ksize": each(layer, pool_size, rank, "pool_size", 1), "adaptive": True}
        out, mask = add_pool(layer, type, input, pool_type, attrs)
        return (out, mask) if require_index else out

    pool.__name__ = pool.__qualname__ = f"adaptive_{type}"
    return pool


pool2d = _pooling("pool2d", 2, "NCHW")
pool3d = _pooling("pool3d", 3, "NCDHW")
adaptive_pool2d = _adapting("pool2d", 2, "NCHW")
adaptive_pool3d = _adapting("pool3d", 3, "NCDHW")
