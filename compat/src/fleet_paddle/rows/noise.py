"""Rows of random zeros, so that a network leans on no single value: `dropout` of values or of whole channels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet.static import layers
from fleet.static.variable import Variable
from fleet_paddle.rows.function import Function, function
from fleet_paddle.rows.window import FORMATS, KINDS, is_last

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
    if axis is not None:
        raise NotSupportedError("dropout: axis must be left out for a variable")
    return layers.dropout(x, p, not training, name=name, dropout_implementation=_WORDS_OF_1[_checked(mode)])


def _of_channels(rank: int) -> Function:
    name = f"dropout{rank}d"

    def dropped(x: T, p: float, training: bool, data_format: str) -> T:
        places = [0, rank + 1 if is_last(name, data_format, rank) else 1]
        return _dropped(x, p, places, training, "upscale_in_train")

    return function(
        f"F.{name}(x, p=0.5, training=True, data_format={FORMATS[rank][0]!r}, name)",
        f"While training, each channel of each {KINDS[rank]} is zero with probability `p`; those that stay grow.",
        dropped,
        None,
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
        None,
    ),
]
