"""`spectral_norm` of a weight, with vectors of the caller's."""

from __future__ import annotations

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable


def add_spectral_norm(
    weight: Variable,
    u: Variable,
    v: Variable,
    dim: int,
    power_iters: int,
    eps: float,
    layer: LayerBuilder | None = None,
) -> Variable:
    """The same with vectors that are there."""
    layer = layer or LayerBuilder("spectral_norm")
    out = layer.temporary(weight.dtype)
    attrs = {"dim": int(dim), "power_iters": int(power_iters), "eps": float(eps)}
    layer.op("spectral_norm", {"Weight": weight, "U": u, "V": v}, {"Out": out, "UOut": u, "VOut": v}, attrs)
    return out
