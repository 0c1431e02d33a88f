"""Layers that normalise, which Fleet has no use for: `spectral_norm`."""

from __future__ import annotations

import math

from fleet_paddle.programs.networks.spectral import add_spectral_norm
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Normal
from fleet_programs.program.variable import Variable

__all__ = ["spectral_norm"]


def spectral_norm(
    weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None
) -> Variable:
    """A weight divided by its greatest singular value as a matrix with `dim` as rows.

    The value is found by `power_iters` steps in every run, from where the last run left two vectors that last.
    """
    layer = LayerBuilder("spectral_norm", name)
    shape = layer.variable(weight, "weight").shape
    height = shape[dim]
    fixed = ParamAttr(initializer=Normal(0.0, 1.0), trainable=False)
    u, v = (layer.needed(fixed, [size], weight.dtype) for size in (height, math.prod(shape) // height))
    return add_spectral_norm(weight, u, v, dim, power_iters, eps, layer)
