"""Images of another size, by a way that an argument names."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import UsageError
from fleet_paddle.programs.layers import table
from fleet_paddle.programs.ops.images.image import RANKS
from fleet_programs.expressions.callsite import prefix
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = [
    "image_resize",
    "image_resize_short",
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
    """`resize_linear`, `resize_bilinear`, `resize_trilinear` or `resize_nearest`, as `resample` says in capitals."""
    method = str(resample).lower()
    if method not in RANKS:
        raise UsageError(
            f"{prefix()}image_resize: resample must be one of {', '.join(RANKS).upper()}, got {resample!r}"
        )
    more = {} if method == "nearest" else {"align_mode": align_mode}
    resize = getattr(table, f"resize_{method}")
    made: Variable = resize(input, out_shape, scale, name, actual_shape, align_corners, data_format=data_format, **more)
    return made


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """`image_resize` so that the shorter side has `out_short_len` pixels and the sides keep their ratio."""
    layer = LayerBuilder("image_resize_short")
    sides = layer.variable(input).shape[2:4]
    if input.ndim != 4 or min(sides) < 1:
        raise layer.error(f"input {input.name!r} must be [batch, channels, height, width], got {list(input.shape)}")
    shape = [int(side * (out_short_len / min(sides)) + 0.5) for side in sides]
    return image_resize(input, shape, resample=resample)
