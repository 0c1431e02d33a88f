"""Rows of random zeros, so that a network leans on no single value: `dropout` of values or of whole channels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.rows.function import Function, function
from fleet_paddle.rows.tensors.making import filled_like
from fleet_paddle.rows.window import FORMATS, KINDS, is_last
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

T = torch.Tensor

_WORDS_OF_1 = {"upscale_in_train": "upscale_in_train", "downscale_in_infer": "downgrade_in_infer"}


def _checked(mode: str) -> str:
    if mode not in _WORDS_OF_1:
        raise UsageError(f"dropout: mode must be {' or '.join(_WORDS_OF_1)}, got {mode!r}")
    return mode


def _dropped(x: T, p: float, axis: Any, training: bool, mode: str) -> T:
    grows = _checked(mode) == "upscale_in_train"
    if not training:
        return x.clone() if grows else x * (1 - p)
    if axis is None:
        made = F.dropout(x, p, True)
    else:
        kept = [one % x.dim() for one in ([axis] if isinstance(axis, int) else axis)]
        shape = [size if dim in kept else 1 for dim, size in enumerate(x.shape)]
        made = x * F.dropout(torch.ones(shape, dtype=x.dtype, device=x.device), p, True)
    return made if grows else made * (1 - p)


def _dropped_variable(x: Variable, p: float, axis: Any, training: bool, mode: str, name: str | None) -> Variable:
    how = _WORDS_OF_1[_checked(mode)]
    if axis is None:
        return layers.dropout(x, p, not training, name=name, dropout_implementation=how)
    kept = [one % x.ndim for one in ([axis] if isinstance(axis, int) else axis)]
    ones, others = filled_like(x, 1, x.dtype), [one for one in range(x.ndim) if one not in kept]
    if others:
        ones = layers.reduce_max(ones, others, True)
    share = layers.dropout(ones, p, not training, dropout_implementation=how)
    return layers.elementwise_mul(x, share, name=name)


def _alpha_dropped_variable(x: Variable, p: float, training: bool, name: str | None) -> Variable:
    layer = LayerBuilder("alpha_dropout", name)
    out, mask = layer.temporary(layer.variable(x, "x").dtype), layer.temporary("uint8", stop_gradient=True)
    layer.op("alpha_dropout", {"X": x}, {"Out": out, "Mask": mask}, {"p": float(p), "is_test": not training})
    return out


def _of_channels(rank: int) -> Function:
    name = f"dropout{rank}d"

    def places(data_format: str) -> list[int]:
        return [0, rank + 1 if is_last(name, data_format, rank) else 1]

    def dropped(x: T, p: float, training: bool, data_format: str) -> T:
        return _dropped(x, p, places(data_format), training, "upscale_in_train")

    def dropped_variable(x: Variable, p: float, training: bool, data_format: str, own: str | None) -> Variable:
        return _dropped_variable(x, p, places(data_format), training, "upscale_in_train", own)

    return function(
        f"F.{name}(x, p=0.5, training=True, data_format={FORMATS[rank][0]!r}, name)",
        f"While training, each channel of each {KINDS[rank]} is zero with probability `p`; those that stay grow.",
        dropped,
        dropped_variable,
    )


FUNCTIONS = [
    function(
        "F.dropout(x, p=0.5, axis=None, training=True, mode='upscale_in_train', name)",
        """While training, each value is zero with probability `p`; those that stay grow.

    With the mode "downscale_in_infer" all shrink in evaluation instead. With `axis`, a dimension or several, values at
    one place along those are zero together. A program that was built with `training` evaluates after
    `clone(for_test=True)`.
    """,
        _dropped,
        _dropped_variable,
    ),
    _of_channels(2),
    _of_channels(3),
    function(
        "F.alpha_dropout(x, p=0.5, training=True, name)",
        "While training, each value has selu's lowest with probability `p`; mean and variance stay what they were.",
        lambda x, p, training: F.alpha_dropout(x, p, True) if training else x.clone(),
        _alpha_dropped_variable,
    ),
]
