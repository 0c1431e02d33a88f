"""Images: another size, more around them, channels in other places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from fleet.errors import NotSupportedError
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.program.variable import Variable

RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5, "nearest": 4}
"""The dimensions of an image for each way to find values between its pixels."""
_LAYOUTS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}


def _to_resize(given: dict[str, Any]) -> dict[str, Any]:
    method, out_shape, scale = given.pop("method"), given.get("out_shape"), given.get("scale")
    if "actual_shape" in given or isinstance(out_shape, Variable) or isinstance(scale, Variable):
        raise NotSupportedError(
            f"resize_{method}: actual_shape must be left out and out_shape and scale be numbers; a size that depends "
            "on values is not built"
        )
    return {
        "interp_method": method,
        "out_shape": [int(size) for size in out_shape or ()],
        "scale": float(scale or 0.0),
        "align_corners": bool(given["align_corners"]),
        "align_mode": int(given.get("align_mode", 1)),
        "data_layout": given["data_format"],
    }


def _resizing(method: str) -> Calls:
    mode = "" if method == "nearest" else "align_mode=1, "
    return Calls(
        f"""Images of the size `out_shape`, or `scale` times as large, by the way called {method}.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """,
        f"resize_{method}(input, out_shape=None, scale=None, name, actual_shape=None, align_corners=True, {mode}"
        f"data_format={_LAYOUTS[RANKS[method]][0]!r})",
        to_attrs=lambda given: _to_resize({**given, "method": method}),
        kind=f"resize_{method}",
    )


def _to_pad(given: dict[str, Any]) -> dict[str, Any]:
    if isinstance(given["paddings"], Variable):
        raise NotSupportedError("pad2d: paddings must be numbers; a size that depends on values is not built")
    around = [int(one) for one in given["paddings"]]
    return {**given, "paddings": around, "pad_value": float(given["pad_value"])}


def _sides(rank: int, layout: str) -> range:
    """The dimensions that are no batch and no channels."""
    return range(1, rank - 1) if layout == _LAYOUTS[rank][1] else range(2, rank)


def _check_layout(infer: Infer, attr: str) -> None:
    wanted = _LAYOUTS[infer.var("X").ndim]
    if infer.attr(attr) not in wanted:
        raise infer.fail(f"{attr} must be {' or '.join(wanted)}, got {infer.attr(attr)!r}")


def _wanted(shape: Sequence[int], given: Sequence[int], scale: float) -> list[int]:
    """The sizes of the new image; -1 where the old one is not known."""
    return list(given) or [-1 if size < 0 else int(size * scale) for size in shape]


def _infer_resize(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    method, given, scale = (infer.attr(name) for name in ("interp_method", "out_shape", "scale"))
    if method not in RANKS:
        raise infer.fail(f"interp_method must be one of {', '.join(RANKS)}, got {method!r}")
    infer.require_rank("X", RANKS[method])
    _check_layout(infer, "data_layout")
    if infer.attr("align_mode") not in (0, 1):
        raise infer.fail(f"align_mode must be 0 or 1, got {infer.attr('align_mode')}")
    if bool(given) == bool(scale):
        raise infer.fail("give out_shape or scale, and not both")
    x = infer.var("X")
    sides = _sides(x.ndim, infer.attr("data_layout"))
    if (not given and scale <= 0) or len(given) not in (0, len(sides)) or any(size < 1 for size in given):
        raise infer.fail(
            f"out_shape must be {len(sides)} sizes, or scale a number above 0, got {list(given)} and {scale}"
        )
    shape = list(x.shape)
    for side, size in zip(sides, _wanted([shape[side] for side in sides], given, scale), strict=True):
        shape[side] = size
    infer.set("Out", shape, x.dtype)


@register(
    "interpolate",
    inputs=("X",),
    attrs={
        "interp_method": "bilinear",
        "out_shape": [],
        "scale": 0.0,
        "align_corners": True,
        "align_mode": 1,
        "data_layout": "NCHW",
    },
    infer=_infer_resize,
    grad=Grad(needs=("X",)),
    calls=[_resizing(method) for method in RANKS],
)
def _interpolate(op: Operator, lowering: Lowering) -> Kernel:
    """One dimension after the other: each value is between the two nearest, or is the nearest."""
    given, scale = list(op.attr("out_shape")), op.attr("scale")
    sides = _sides(len(lowering.shape(op.input("X")[0])), op.attr("data_layout"))
    is_nearest, corners = op.attr("interp_method") == "nearest", op.attr("align_corners")
    is_centred = op.attr("align_mode") == 0 and not corners

    def resize(x: torch.Tensor) -> torch.Tensor:
        wanted = _wanted([x.shape[side] for side in sides], given, scale)
        for side, size in zip(sides, wanted, strict=True):
            old = x.shape[side]
            ratio = (old - 1) / (size - 1) if corners and size > 1 else 0.0 if corners else old / size
            at = torch.arange(size, dtype=torch.float64, device=x.device)
            if is_nearest:
                x = x.index_select(side, (at * ratio + (0.5 if corners else 0.0)).long().clamp_(max=old - 1))
                continue
            at = ((at + 0.5) * ratio - 0.5).clamp_(min=0) if is_centred else at * ratio
            low = at.long().clamp_(max=old - 1)
            share = (at - low).to(x.dtype).view(-1, *[1] * (x.ndim - 1 - side))
            high = (low + 1).clamp_(max=old - 1)
            x = torch.lerp(x.index_select(side, low), x.index_select(side, high), share)
        return x

    return resize


def _infer_pad(infer: Infer) -> None:
    infer.require_rank("X", 4)
    _check_layout(infer, "data_format")
    x, around, mode = infer.var("X"), list(infer.attr("paddings")), infer.attr("mode")
    if len(around) != 4 or any(one < 0 for one in around):
        raise infer.fail(f"paddings must be counts above, below, left and right, got {around}")
    if mode not in PAD_MODES:
        raise infer.fail(f"mode must be one of {', '.join(PAD_MODES)}, got {mode!r}")
    shape = list(x.shape)
    for place, side in enumerate(_sides(4, infer.attr("data_format"))):
        shape[side] = -1 if shape[side] < 0 else shape[side] + sum(around[2 * place : 2 * place + 2])
    infer.set("Out", shape, x.dtype)


@register(
    "pad2d",
    inputs=("X",),
    attrs={"paddings": [0, 0, 0, 0], "mode": "constant", "pad_value": 0.0, "data_format": "NCHW"},
    infer=_infer_pad,
    grad=Grad(needs=("X",)),
    calls=Calls(
        """Images with so many more pixels above, below, left and right: `pad_value`, or the image again.

    `mode` is constant, reflect (as in a mirror on the outermost pixel) or edge (the outermost pixel).
    """,
        "pad2d(input, paddings=(0, 0, 0, 0), mode='constant', pad_value=0.0, data_format='NCHW', name)",
        to_attrs=_to_pad,
    ),
)
def _pad2d(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    above, below, left, right = op.attr("paddings")
    mode, value = PAD_MODES[op.attr("mode")], op.attr("pad_value") if op.attr("mode") == "constant" else None

    def pad(x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x, (left, right, above, below), mode, value)

    if op.attr("data_format") == "NHWC":
        return lambda x: pad(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return pad


def _infer_blocks(infer: Infer) -> None:
    infer.require_rank("X", 4)
    x, by = infer.var("X"), infer.attr("by")
    batch, channels, height, width = x.shape
    if infer.op.type == "shuffle_channel":
        if by < 1 or channels % by:
            raise infer.fail(f"group must divide the {channels} channels of X {x.name!r}, got {by}")
        infer.like("Out", "X")
    elif infer.op.type == "pixel_shuffle":
        if by < 1 or channels % (by * by):
            raise infer.fail(f"the square of upscale_factor must divide {channels} channels, got {by}")
        sides = [-1 if side < 0 else side * by for side in (height, width)]
        infer.set("Out", (batch, channels // (by * by), *sides), x.dtype)
    else:
        if by < 1 or any(side > 0 and side % by for side in (height, width)):
            raise infer.fail(f"blocksize must divide the sides {height} and {width} of X {x.name!r}, got {by}")
        sides = [-1 if side < 0 else side // by for side in (height, width)]
        infer.set("Out", (batch, channels * by * by, *sides), x.dtype)


def _depth(x: torch.Tensor, by: int) -> torch.Tensor:
    """Blocks of pixels as channels: first the place in the block, then the old channel."""
    batch, channels, height, width = x.shape
    parts = x.reshape(batch, channels, height // by, by, width // by, by).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(batch, channels * by * by, height // by, width // by)


for _type, _function, _calls in (
    (
        "shuffle_channel",
        functional.channel_shuffle,
        Calls("The channels of `group` groups in turn.", "shuffle_channel(x, group->by, name)"),
    ),
    (
        "pixel_shuffle",
        functional.pixel_shuffle,
        Calls(
            "Channels become pixels: [n, c * r * r, h, w] to [n, c, h * r, w * r].",
            "pixel_shuffle(x, upscale_factor->by)",
        ),
    ),
    (
        "space_to_depth",
        _depth,
        Calls(
            "Pixels become channels: [n, c, h * b, w * b] to [n, b * b * c, h, w].",
            "space_to_depth(x, blocksize->by, name)",
        ),
    ),
):

    @register(_type, inputs=("X",), attrs={"by": 1}, infer=_infer_blocks, grad=Grad(needs=("X",)), calls=_calls)
    def _blocks(op: Operator, lowering: Lowering, function: Kernel = _function) -> Kernel:  # noqa: ARG001
        by = op.attr("by")
        return lambda x: function(x, by)
