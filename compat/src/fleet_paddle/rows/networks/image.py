"""Rows of images of other sizes: `pad`, `interpolate`. One operator each: `programs.ops.images.pixels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import sizes
from fleet_paddle.programs.ops.images.pixels import interpolated, padded
from fleet_paddle.programs.variables.computed import add
from fleet_paddle.rows.function import function
from fleet_programs import layers
from fleet_programs.operators.networks.conv import is_channel_last
from fleet_programs.program.variable import Variable


def _pad_of_variables(
    x: Variable, pad: Sequence[int] | int, mode: str, value: float, data_format: str, name: str | None
) -> Variable:
    numbers = [pad] * (2 * x.ndim - 4) if isinstance(pad, int) else [int(one) for one in pad]
    if mode != "constant":
        attrs = {"paddings": numbers, "mode": mode, "data_format": data_format}
        made: Variable = add("pad_around", {"X": x}, attrs, name)
        return made
    pairs = [numbers[place : place + 2] for place in range(0, len(numbers), 2)]
    if len(numbers) % 2 or len(pairs) not in (x.ndim, x.ndim - 2):
        raise UsageError(f"pad: pad must have {2 * (x.ndim - 2)} or {2 * x.ndim} numbers for {x.name!r}, got {numbers}")
    if len(pairs) == x.ndim - 2:
        last = is_channel_last(data_format) or data_format == "NLC"
        pairs = [[0, 0], *reversed(pairs), [0, 0]] if last else [[0, 0], [0, 0], *reversed(pairs)]
    return layers.pad(x, [one for pair in pairs for one in pair], value, name)


def _interpolate_of_variables(
    x: Variable, size: Any, factor: Any, mode: str, align_corners: bool, align_mode: int, layout: str, name: str | None
) -> Variable:
    rank = x.ndim - 2
    if (size is None) == (factor is None):
        raise UsageError(f"interpolate: give size or scale_factor, got {size!r} and {factor!r}")
    if isinstance(factor, Variable):
        raise UsageError("interpolate: scale_factor must be numbers; give a variable as size")
    attrs: dict[str, Any] = {"mode": mode, "align_corners": bool(align_corners), "align_mode": int(align_mode)}
    inputs: dict[str, Any] = {"X": x}
    if isinstance(size, Variable):
        inputs["OutSize"] = size
    elif isinstance(size, list | tuple) and any(isinstance(one, Variable) for one in size):
        whole = [layers.cast(one if isinstance(one, Variable) else _number(one), "int64") for one in size]
        inputs["OutSize"] = layers.concat([layers.reshape(one, [1]) for one in whole], 0)
    elif size is not None:
        attrs["size"] = [size] * rank if isinstance(size, int) else [int(one) for one in size]
    else:
        attrs["scale"] = [float(factor)] * rank if isinstance(factor, int | float) else [float(one) for one in factor]
    made: Variable = add("interp_v2", inputs, {**attrs, "data_format": layout}, name)
    return made


def _number(value: Any) -> Variable:
    return layers.fill_constant([1], "int64", int(value))


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
        lambda x, pad, *how: padded(x, pad if isinstance(pad, int) else sizes(pad), *how),
        _pad_of_variables,
    ),
    function(
        f"F.interpolate({_RESIZING})",
        "Another size, or that many times the size: modes nearest, linear, bilinear, trilinear, bicubic and area.",
        interpolated,
        _interpolate_of_variables,
        "Upsample",
    ),
    function(f"F.upsample({_RESIZING})", "The same as `interpolate`.", interpolated, _interpolate_of_variables),
]
