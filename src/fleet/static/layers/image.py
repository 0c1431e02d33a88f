"""Layers over images: another size, more around them, channels in other places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static.layers.helper import Layer
from fleet.static.ops.image import RANKS
from fleet.static.variable import Variable

__all__ = [
    "image_resize",
    "image_resize_short",
    "pad2d",
    "pixel_shuffle",
    "resize_bilinear",
    "resize_linear",
    "resize_nearest",
    "resize_trilinear",
    "shuffle_channel",
    "space_to_depth",
]


def image_resize(
    input: Variable,
    out_shape: Sequence[int] | Variable | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by LINEAR, BILINEAR, TRILINEAR or NEAREST values.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """
    layer = Layer(f"resize_{resample}".lower(), name)
    if str(resample).lower() not in RANKS:
        raise layer.error(f"resample must be one of {', '.join(RANKS).upper()}, got {resample!r}")
    if actual_shape is not None or isinstance(out_shape, Variable) or isinstance(scale, Variable):
        raise NotSupportedError(
            f"{layer.kind}: actual_shape must be left out and out_shape and scale be numbers; a size that depends on "
            "values is not built"
        )
    if (out_shape is None) == (scale is None):
        raise layer.error("give out_shape or scale, and not both")
    attrs = {
        "interp_method": str(resample).lower(),
        "out_shape": [int(size) for size in out_shape or ()],
        "scale": float(scale or 0.0),
        "align_corners": bool(align_corners),
        "align_mode": int(align_mode),
        "data_layout": data_format,
    }
    return layer.apply("interpolate", {"X": layer.variable(input)}, attrs, input.dtype)


def resize_linear(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCW",
) -> Variable:
    """`image_resize` of [batch, channels, length]."""
    return image_resize(input, out_shape, scale, name, "LINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_bilinear(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` by values between the four nearest pixels."""
    return image_resize(input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_trilinear(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Variable:
    """`image_resize` of [batch, channels, depth, height, width]."""
    return image_resize(
        input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format
    )


def resize_nearest(
    input: Variable,
    out_shape: Sequence[int] | None = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` by the nearest pixel."""
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, 1, data_format)


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """`image_resize` so that the shorter side has `out_short_len` pixels and the sides keep their ratio."""
    layer = Layer("image_resize_short")
    sides = layer.variable(input).shape[2:4]
    if input.ndim != 4 or min(sides) < 1:
        raise layer.error(f"input {input.name!r} must be [batch, channels, height, width], got {list(input.shape)}")
    shape = [int(side * (out_short_len / min(sides)) + 0.5) for side in sides]
    return image_resize(input, shape, resample=resample)


def pad2d(
    input: Variable,
    paddings: Sequence[int] | Variable = (0, 0, 0, 0),
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Images with so many more pixels above, below, left and right: `pad_value`, or the image again.

    `mode` is constant, reflect (as in a mirror on the outermost pixel) or edge (the outermost pixel).
    """
    layer = Layer("pad2d", name)
    if isinstance(paddings, Variable):
        raise NotSupportedError("pad2d: paddings must be numbers; a size that depends on values is not built")
    attrs = {
        "paddings": [int(one) for one in paddings],
        "mode": mode,
        "pad_value": float(pad_value),
        "data_format": data_format,
    }
    return layer.apply("pad2d", {"X": layer.variable(input)}, attrs, input.dtype)


def _blocks(type: str, x: Any, by: int, what: str, name: str | None = None) -> Variable:
    layer = Layer(type, name)
    return layer.apply(type, {"X": layer.variable(x, what)}, {"by": int(by)}, x.dtype)


def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """The channels of `group` groups in turn."""
    return _blocks("shuffle_channel", x, group, "x", name)


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """Channels become pixels: [n, c * r * r, h, w] to [n, c, h * r, w * r]."""
    return _blocks("pixel_shuffle", x, upscale_factor, "x")


def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """Pixels become channels: [n, c, h * b, w * b] to [n, b * b * c, h, w]."""
    return _blocks("space_to_depth", x, blocksize, "x", name)
