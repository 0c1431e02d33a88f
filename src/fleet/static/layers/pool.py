"""Pooling over images."""

from __future__ import annotations

from typing import Any

from fleet.errors import NotSupportedError
from fleet.static.layers.helper import LayerBuilder
from fleet.static.layers.windows import Sizes, channels_and_sizes, each, paddings
from fleet.static.variable import Variable

__all__ = ["adaptive_pool2d", "pool2d"]


def pool2d(
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
    data_format: str = "NCHW",
) -> Variable:
    """The greatest ("max") or the mean ("avg") of each window; with `global_pooling` of the whole image.

    `exclusive` means do not count the padding. `ceil_mode` keeps a window that hangs over the end.
    """
    layer = LayerBuilder("pool2d", name)
    _, sizes = channels_and_sizes(layer, input, 2, data_format)
    if not global_pooling and pool_size == -1:
        raise layer.error("pool_size must be given unless global_pooling is True")
    kernel = [1, 1] if global_pooling else each(layer, pool_size, 2, "pool_size", 1)
    strides = each(layer, pool_stride, 2, "pool_stride", 1)
    pads = [0, 0] if global_pooling else paddings(layer, pool_padding, sizes, kernel, strides, [1, 1])
    attrs = {
        "ksize": kernel,
        "strides": strides,
        "paddings": pads,
        "global_pooling": bool(global_pooling),
        "ceil_mode": bool(ceil_mode),
        "exclusive": bool(exclusive),
        "data_format": data_format,
    }
    return _pool(layer, input, pool_type, attrs)[0]


def adaptive_pool2d(
    input: Variable, pool_size: Sizes, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Variable:
    """`pool2d` with the windows that give an output of size `pool_size`."""
    layer = LayerBuilder("adaptive_pool2d", name)
    if require_index:
        raise NotSupportedError("adaptive_pool2d: require_index is not built; leave it False")
    channels_and_sizes(layer, input, 2, "NCHW")
    attrs = {"ksize": each(layer, pool_size, 2, "pool_size", 1), "adaptive": True}
    return _pool(layer, input, pool_type, attrs)[0]


def _pool(layer: LayerBuilder, input: Variable, type: str, attrs: dict[str, Any]) -> tuple[Variable, Variable | None]:
    if type not in ("max", "avg"):
        raise layer.error(f"pool_type must be 'max' or 'avg', got {type!r}")
    out = layer.temporary(input.dtype)
    # Where each greatest value was: the gradient goes there.
    mask = layer.temporary("int64", stop_gradient=True) if type == "max" else None
    layer.op("pool2d", {"X": input}, {"Out": out, "Mask": mask}, {"pooling_type": type, **attrs})
    return out, mask
