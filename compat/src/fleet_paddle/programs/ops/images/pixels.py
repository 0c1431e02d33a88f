"""Images by where their pixels are: windows as columns, other places, other frames, other sizes, more around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.programs.variables.computed import computed
from fleet_paddle.rows.window import FORMATS, back, each, flat, is_last, plain, to_first
from fleet_programs.operators.common.making import integers

T = torch.Tensor

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_MODES = ("nearest", *_RANKS, "area")


@computed(
    "unfold",
    "F.unfold(x, kernel_sizes, strides=1, paddings=0, dilations=1, name)",
    {"kernel_sizes": [1], "strides": [1], "paddings": [0], "dilations": [1]},
    v1="unfold(x, kernel_sizes, strides=1, paddings=0, dilations=1, name)",
    layer="Unfold",
)
def _unfold(x: T, kernel_sizes: Any, strides: Any, paddings: Any, dilations: Any) -> T:
    """Every window of an image as a column; `paddings` is a number, two, or those of top, left, bottom and right."""
    if not isinstance(paddings, int) and len(paddings) == 4:
        top, left, bottom, right = paddings
        x, paddings = F.pad(x, [left, right, top, bottom]), 0
    kernel, rate, around, step = (tuple(each("unfold", one, 2)) for one in (kernel_sizes, dilations, paddings, strides))
    return F.unfold(x, kernel, rate, around, step)


@computed(
    "affine_grid",
    "F.affine_grid(theta, out_shape, align_corners=True, name)",
    {"out_shape": [1], "align_corners": True},
    inputs=("Theta",),
    wrt=("Theta",),
    v1="affine_grid(theta, out_shape, name)",
)
def _affine_grid(theta: T, out_shape: Any, align_corners: bool = True) -> T:
    """Where each pixel of the output, [batch, channels, height, width], comes from, under affine maps [batch, 2, 3]."""
    return F.affine_grid(plain(theta), list(integers(out_shape)), align_corners)


@computed(
    "grid_sampler",
    "F.grid_sample(x, grid, mode='bilinear', padding_mode='zeros', align_corners=True, name)",
    {"mode": "bilinear", "padding_mode": "zeros", "align_corners": True},
    inputs=("X", "Grid"),
    wrt=("X", "Grid"),
    v1="grid_sampler(x, grid, name)",
)
def _grid_sample(x: T, grid: T, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True) -> T:
    """The image at the places that the grid, [batch, height, width, 2], names, from -1 to 1."""
    way = {"reflect": "reflection"}.get(padding_mode, padding_mode)
    return F.grid_sample(plain(x), plain(grid), mode, way, align_corners)


@computed(
    "temporal_shift",
    "F.temporal_shift(x, seg_num, shift_ratio=0.25, name, data_format='NCHW')",
    {"seg_num": 1, "shift_ratio": 0.25, "data_format": "NCHW"},
    v1="temporal_shift(x, seg_num, shift_ratio=0.25, name)",
)
def _temporal_shift(x: T, seg_num: int, shift_ratio: float = 0.25, data_format: str = "NCHW") -> T:
    """Frames of `seg_num` each: a share of the channels comes from the frame before, as many from the one after."""
    last = is_last("temporal_shift", data_format, 2)
    image = to_first(x, last)
    frames = torch.reshape(image, (-1, seg_num, *image.shape[1:]))
    ends = [int(frames.shape[2] * shift_ratio), int(frames.shape[2] * 2 * shift_ratio)]
    before, after, stay = torch.tensor_split(frames, ends, 2)
    none = [0] * 2 * (frames.dim() - 2)
    moved = [F.pad(before[:, :-1], [*none, 1, 0]), F.pad(after[:, 1:], [*none, 0, 1]), stay]
    return back(torch.reshape(torch.cat(moved, 2), image.shape), last)


@computed(
    "pixel_shuffle_v2",
    "F.pixel_shuffle(x, upscale_factor, data_format='NCHW', name)",
    {"upscale_factor": 1, "data_format": "NCHW"},
    layer="PixelShuffle",
)
def _pixel_shuffle(x: T, upscale_factor: int, data_format: str) -> T:
    """Channels become pixels: fewer of those by the square of the factor, each side longer by it."""
    last = is_last("pixel_shuffle", data_format, 2)
    return back(F.pixel_shuffle(to_first(x, last), upscale_factor), last)


def _scales(factor: Any) -> Any:
    if factor is None or isinstance(factor, int | float):
        return factor
    return factor.tolist() if isinstance(factor, T) else [float(one) for one in factor]


def interpolated(x: T, size: Any, factor: Any, mode: str, align_corners: bool, align_mode: int, layout: str) -> T:
    """Images of another size, or of that many times the size."""
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
    wanted = None if size is None else [int(one) for one in ([size] * rank if isinstance(size, int) else size)]
    made = F.interpolate(to_first(plain(x), last), wanted, _scales(factor), way, align_corners if blends else None)
    return back(made, last)


_RESIZED = {"size": [], "scale": [], "mode": "nearest", "align_corners": False, "align_mode": 0, "data_format": "NCHW"}


@computed("interp_v2", attrs=_RESIZED, inputs=("X", "OutSize?"), values=("OutSize",))
def _interpolate(
    x: T,
    out_size: T | None,
    size: Sequence[int],
    scale: Sequence[float],
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_format: str,
) -> T:
    """Another size, which attributes say, or a variable."""
    wanted = (list(size) or None) if out_size is None else out_size.tolist()
    return interpolated(x, wanted, list(scale) or None, mode, align_corners, align_mode, data_format)


@computed("pad_around", attrs={"paddings": [0], "mode": "constant", "value": 0.0, "data_format": "NCHW"})
def padded(x: T, paddings: Any, mode: str, value: float, data_format: str) -> T:
    """More values on each side; see `paddle.nn.functional.pad`."""
    around = [paddings] * (2 * x.dim() - 4) if isinstance(paddings, int) else list(integers(paddings))
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
