"""Whether gradients are numbers, wherever they are."""

from __future__ import annotations

import math

import torch

from fleet import _native


def is_finite(values: torch.Tensor) -> bool:
    """Whether none of the values is a NaN or an Inf."""
    if values.device.type == "cpu":
        return _native.all_finite(values)
    # Of few launches; the largest of some is a NaN if one is.
    return not values.numel() or math.isfinite(float(values.abs().amax()))
