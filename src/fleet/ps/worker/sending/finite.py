"""Whether gradients are finite, in CPU memory or on a GPU."""

from __future__ import annotations

import math

import torch

from fleet import _native
from fleet.errors import UsageError


def is_finite(values: torch.Tensor) -> bool:
    """Whether none of the values is a NaN or an Inf."""
    if values.device.type == "cpu":
        return _native.all_finite(values)
    # Takes few launches: the largest value is a NaN if any is one.
    return not values.numel() or math.isfinite(float(values.abs().amax()))


def nonfinite_error(what: str, worker: int, step: int) -> UsageError:
    """The error of a step that is not sent because its gradients are not finite."""
    return UsageError(
        f"{what}: the gradients of worker {worker}, step {step} hold a NaN or an Inf; "
        "nothing was sent. Set strategy.nonfinite_gradients = 'skip' to leave such rows out"
    )
