"""Images of other sizes: `pad`, `interpolate`, windows as columns, channels as pixels, what lies at given places."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.creation import sizes
from fleet_paddle.imperative.nn.functional.window import Sizes, back, each, flat, is_last, plain, to_first
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "affine_grid",
    "grid_sample",
    "interpolate",
    "pad",
    "pixel_shuffle",
    "temporal_shift",
    "unfold",
    "upsample",
]

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_MODES = ("nearest", *_RANKS, "area")


def pad(
    x: torch.Tensor,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """More values on each side: two numbers for every dimension, from the first, if there are so many.

    Otherwise `x` has a batch, channels and one to three more dimensions, and the numbers are for those, the last first.
    Modes are constant, reflect, replicate and circular.
    """
    around = [int(one) for one in (sizes(pad) if not isinstance(pad, int) else [pad] * (2 * x.dim() - 4))]
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise UsageError(f"pad: mode must be constant, reflect, replicate or circular, got {mode!r}")
    if mode == "constant" and len(around) == 2 * x.dim():
        return own(F.pad(x, flat(list(zip(around[::2], around[1::2], strict=True))), value=value))
    if not 3 <= x.dim() <= 5 or len(around) != 2 * x.dim() - 4:
        raise UsageError(
            f"pad: a tensor of shape {list(x.shape)} takes {max(2 * x.dim() - 4, 0)} numbers, or with mode constant "
            f"{2 * x.dim()}, got {len(around)}"
        )
    last = data_format.endswith("C")
    made = F.pad(to_first(x, last), around, mode, value if mode == "constant" else None)
    return own(back(made, last))


def interpolate(
    x: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Another size, or that many times the size: modes nearest, linear, bilinear, trilinear, bicubic and area."""
    way, rank = mode.lower(), x.dim() - 2
    if way not in _MODES or not 1 <= rank <= 3:
        raise UsageError(f"interpolate: mode must be one of {', '.join(_MODES)} for 3 to 5 dimensions, got {mode!r}")
    if _RANKS.get(way, rank) != rank:
        raise UsageError(f"interpolate: mode {mode!r} takes {_RANKS[way] + 2} dimensions, got {x.dim()}")
    if (size is None) == (scale_factor is None):
        raise UsageError(f"interpolate: give size or scale_factor, got {size!r} and {scale_factor!r}")
    if align_mode not in (0, 1):
        raise UsageError(f"interpolate: align_mode must be 0 or 1, got {align_mode!r}")
    blends = way in _RANKS
    if align_mode == 1 and way in ("linear", "bilinear", "trilinear") and not align_corners:
        raise NotSupportedError("interpolate: align_mode=1 is not built; leave it out, or use align_corners=True")
    if align_corners and not blends:
        raise NotSupportedError(f"interpolate: align_corners is not built for mode {mode!r}; leave it out")
    last = is_last("interpolate", _format(data_format, rank), rank)
    factor = scale_factor
    if factor is not None and not isinstance(factor, int | float):
        factor = [float(one) for one in factor] if not isinstance(factor, torch.Tensor) else factor.tolist()
    wanted = None if size is None else [int(one) for one in ([size] * rank if isinstance(size, int) else size)]
    made = F.interpolate(to_first(plain(x), last), wanted, factor, way, align_corners if blends else None)
    return own(back(made, last))


def upsample(
    x: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The same as `interpolate`."""
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format, name)


def unfold(
    x: torch.Tensor,
    kernel_sizes: Sizes,
    strides: Sizes = 1,
    paddings: Sizes = 0,
    dilations: Sizes = 1,
    name: str | None = None,
) -> Tensor:
    """Every window of an image as a column; `paddings` is one number, two, or those of top, left, bottom and right."""
    if not isinstance(paddings, int) and len(paddings) == 4:
        top, left, bottom, right = paddings
        x, paddings = F.pad(x, [left, right, top, bottom]), 0
    kernel, rate, around, step = (tuple(each("unfold", one, 2)) for one in (kernel_sizes, dilations, paddings, strides))
    return own(F.unfold(x, kernel, rate, around, step))


def pixel_shuffle(x: torch.Tensor, upscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Channels become pixels: fewer of those by the square of the factor, each side longer by it."""
    last = is_last("pixel_shuffle", data_format, 2)
    return own(back(F.pixel_shuffle(to_first(x, last), upscale_factor), last))


def affine_grid(theta: torch.Tensor, out_shape: Any, align_corners: bool = True, name: str | None = None) -> Tensor:
    """Where each pixel of the output comes from, under affine maps [batch, 2, 3]."""
    return own(F.affine_grid(theta, list(sizes(out_shape)), align_corners))


def grid_sample(
    x: torch.Tensor,
    grid: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Tensor:
    """The image at the places that the grid names, from -1 to 1."""
    way = {"reflect": "reflection"}.get(padding_mode, padding_mode)
    return own(F.grid_sample(x, grid, mode, way, align_corners))


def temporal_shift(
    x: torch.Tensor, seg_num: int, shift_ratio: float = 0.25, name: str | None = None, data_format: str = "NCHW"
) -> Tensor:
    """Frames of `seg_num` each: a share of the channels comes from the frame before, as many from the one after."""
    last = is_last("temporal_shift", data_format, 2)
    image = to_first(x, last)
    frames = torch.reshape(image, (-1, seg_num, *image.shape[1:]))
    ends = [int(frames.shape[2] * shift_ratio), int(frames.shape[2] * 2 * shift_ratio)]
    before, after, stay = torch.tensor_split(frames, ends, 2)
    none = [0] * 2 * (frames.dim() - 2)
    moved = [F.pad(before[:, :-1], [*none, 1, 0]), F.pad(after[:, 1:], [*none, 0, 1]), stay]
    return own(back(torch.reshape(torch.cat(moved, 2), image.shape), last))


def _format(data_format: str, rank: int) -> str:
    """2.0's default says NCHW for every number of dimensions."""
    return {1: "NCL", 2: "NCHW", 3: "NCDHW"}[rank] if data_format == "NCHW" else data_format
