"""The factor by which clipping makes the gradients of a step smaller; a server, which never imports torch, asks too."""

from math import sqrt

EPSILON = 1e-6
"""Added to a norm before dividing by it, as in torch."""


def factor_of(max_norm: float | None, squared_norm: float) -> float:
    """The factor for a gradient; 1 where its norm is below the limit, or there is none."""
    return 1.0 if max_norm is None else min(1.0, max_norm / (sqrt(squared_norm) + EPSILON))
