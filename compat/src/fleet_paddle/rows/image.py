"""Rows of images of other sizes: `pad`, `interpolate`, windows as columns, channels as pixels, values at places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.ops.conv import is_channel_last
from fleet.static.variable import Variable
from fleet_paddle.imperative.creation import sizes
from fleet_paddle.rows.function import function
from fleet_paddle.rows.window import FORMATS, Sizes, back, each, flat, is_last, plain, to_first

T = torch.Tensor

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_MODES = ("nearest", *_RANKS, "area")


def _pad(x: T, pad: Any, mode: str, value: float, data_format: str) -> T:
    around = [int(one) for one in (sizes(pad) if not isinstance(pad, int) else [pad] * (2 * x.dim() - 4))]
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise UsageError(f"pad: mode must be constant, reflect, replicate or circular, got {mode!r}")
    if mode == "constant" and len(around) == 2 * x.dim():
        return F.pad(x, flat(list(zip(around[::2], around[1::2], strict=True))), value=value)
    if not 3 <= x.dim() <= 5 or len(around) != 2 * x.dim() - 4:
        raise UsageError(
            f"pad: a tensor of shape {list(x.shape)} takes {max(2 * x.dim() - 4, 0)} numbers, or with mode constant "
            f"{2 * x.dim()}, got {len(around)}"
        )
    last = data_format.endswith("C")
    return back(F.pad(to_first(x, last), around, mode, value if mode == "constant" else None), last)


def _pad_of_variables(
    x: Variable, pad: Sequence[int], mode: str, value: float, data_format: str, name: str | None
) -> Variable:
    if mode != "constant":
        raise NotSupportedError(f"pad: mode must be 'constant' for a variable, got {mode!r}")
    numbers = [int(one) for one in pad]
    pairs = [numbers[place : place + 2] for place in range(0, len(numbers), 2)]
    if len(numbers) % 2 or len(pairs) not in (x.ndim, x.ndim - 2):
        raise UsageError(f"pad: pad must have {2 * (x.ndim - 2)} or {2 * x.ndim} numbers for {x.name!r}, got {numbers}")
    if len(pairs) == x.ndim - 2:
        last = is_channel_last(data_format) or data_format == "NLC"
        pairs = [[0, 0], *reversed(pairs), [0, 0]] if last else [[0, 0], [0, 0], *reversed(pairs)]
    return layers.pad(x, [one for pair in pairs for one in pair], value, name)


def _interpolate(x: T, size: Any, factor: Any, mode: str, align_corners: bool, align_mode: int, layout: str) -> T:
    way, rank = mode.lower(), x.dim() - 2
    if way not in _MODES or not 1 <= rank <= 3:
        raise UsageError(f"interpolate: mode must be one of {', '.join(_MODES)} for 3 to 5 dimensions, got {mode!r}")
    if _RANKS.get(way, rank) != rank:
        raise UsageError(f"interpolate: mode {mode!r} takes {_RANKS[way] + 2} dimensions, got {x.dim()}")
    if (size is None) == (factor is None):
        raise UsageError(f"interpolate: give size or scale_factor, got {size!r} and {factor!r}")
    if align_mode not in (0, 1):
        raise UsageError(f"interpolate: align_mode must be 0 or 1, got {align_mode!r}")
    blends = way in _RANKS
    if align_mode == 1 and way in ("linear", "bilinear", "trilinear") and not align_corners:
        raise NotSupportedError("interpolate: align_mode=1 is not built; leave it out, or use align_corners=True")
    if align_corners and not blends:
        raise NotSupportedError(f"interpolate: align_corners is not built for mode {mode!r}; leave it out")
    # 2.0's default says NCHW for every number of dimensions.
    last = is_last("interpolate", FORMATS[rank][0] if layout == "NCHW" else layout, rank)
    if factor is not None and not isinstance(factor, int | float):
        factor = [float(one) for one in factor] if not isinstance(factor, T) else factor.tolist()
    wanted = None if size is None else [int(one) for one in ([size] * rank if isinstance(size, int) else size)]
    made = F.interpolate(to_first(plain(x), last), wanted, factor, way, align_corners if blends else None)
    return back(made, last)


def _unfold(x: T, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes, dilations: Sizes) -> T:
    if not isinstance(paddings, int) and len(paddings) == 4:
        top, left, bottom, right = paddings
        x, paddings = F.pad(x, [left, right, top, bottom]), 0
    kernel, rate, around, step = (tuple(each("unfold", one, 2)) for one in (kernel_sizes, dilations, paddings, strides))
    return F.unfold(x, kernel, rate, around, step)


def _pixel_shuffle(x: T, upscale_factor: int, data_format: str) -> T:
    last = is_last("pixel_shuffle", data_format, 2)
    return back(F.pixel_shuffle(to_first(x, last), upscale_factor), last)


def _grid_sample(x: T, grid: T, mode: str, padding_mode: str, align_corners: bool) -> T:
    way = {"reflect": "reflection"}.get(padding_mode, padding_mode)
    return F.grid_sample(x, grid, mode, way, align_corners)


def _temporal_shift(x: T, seg_num: int, shift_ratio: float, data_format: str) -> T:
    last = is_last("temporal_shift", data_format, 2)
    image = to_first(x, last)
    frames = torch.reshape(image, (-1, seg_num, *image.shape[1:]))
    ends = [int(frames.shape[2] * shift_ratio), int(frames.shape[2] * 2 * shift_ratio)]
    before, after, stay = torch.tensor_split(frames, ends, 2)
    none = [0] * 2 * (frames.dim() - 2)
    moved = [F.pad(before[:, :-1], [*none, 1, 0]), F.pad(after[:, 1:], [*none, 0, 1]), stay]
    return back(torch.reshape(torch.cat(moved, 2), image.shape), last)


_RESIZING = (
    "x, size=None, scale_factor=None, mode='nearest', align_corners=False, align_mode=0, data_format='NCHW', name"
)

FUNCTIONS = [
    function(
        "F.pad(x, pad, mode='constant', value=0.0, data_format='NCHW', name)",
        """More values on each side: two numbers for every dimension, from the first, if there are so many.

    Otherwise `x` has a batch, channels and one to three more dimensions, and the numbers are for those, the last first.
    Modes are constant, reflect, replicate and circular.
    """,
        _pad,
        _pad_of_variables,
    ),
    function(
        f"F.interpolate({_RESIZING})",
        "Another size, or that many times the size: modes nearest, linear, bilinear, trilinear, bicubic and area.",
        _interpolate,
        None,
        "Upsample",
    ),
    function(f"F.upsample({_RESIZING})", "The same as `interpolate`.", _interpolate, None),
    function(
        "F.unfold(x, kernel_sizes, strides=1, paddings=0, dilations=1, name)",
        "Every window of an image as a column; `paddings` is a number, two, or those of top, left, bottom and right.",
        _unfold,
        None,
        "Unfold",
    ),
    function(
        "F.pixel_shuffle(x, upscale_factor, data_format='NCHW', name)",
        "Channels become pixels: fewer of those by the square of the factor, each side longer by it.",
        _pixel_shuffle,
        None,
        "PixelShuffle",
    ),
    function(
        "F.affine_grid(theta, out_shape, align_corners=True, name)",
        "Where each pixel of the output comes from, under affine maps [batch, 2, 3].",
        lambda theta, out_shape, align_corners: F.affine_grid(theta, list(sizes(out_shape)), align_corners),
        None,
    ),
    function(
        "F.grid_sample(x, grid, mode='bilinear', padding_mode='zeros', align_corners=True, name)",
        "The image at the places that the grid names, from -1 to 1.",
        _grid_sample,
        None,
        num_operands=2,
    ),
    function(
        "F.temporal_shift(x, seg_num, shift_ratio=0.25, name, data_format='NCHW')",
        "Frames of `seg_num` each: a share of the channels comes from the frame before, as many from the one after.",
        _temporal_shift,
        None,
    ),
]
