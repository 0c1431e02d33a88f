"""By how much a gradient is scaled that is longer than it may be: as by torch's `clip_grad_norm_`."""

from __future__ import annotations

from math import sqrt

EPSILON = 1e-6
"""Added to a norm before it divides: torch's."""


def factor_of(max_norm: float | None, squared_norm: float) -> float:
    """By what a gradient is multiplied; 1: it is short enough, or has no limit."""
    return 1.0 if max_norm is None else min(1.0, max_norm / (sqrt(squared_norm) + EPSILON))
