"""`prelu`, the activation that has a parameter; those without are in `fleet_programs.layers.table`."""

from __future__ import annotations

from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.variable import Variable

__all__ = ["prelu"]


def prelu(x: Variable, mode: str, param_attr: Any = None, name: str | None = None) -> Variable:
    """x where it is positive, a trained factor times x elsewhere: one for all, each channel or each element."""
    layer = LayerBuilder("prelu", name)
    layer.variable(x, "x")
    shapes = {"all": [1], "channel": [1, *x.shape[1:2], *[1] * (x.ndim - 2)], "element": [1, *x.shape[1:]]}
    if mode not in shapes:
        raise layer.error(f"mode must be all, channel or element, got {mode!r}")
    alpha = layer.needed(param_attr, shapes[mode], x.dtype, default=Constant(0.25))
    return layer.apply("prelu", {"X": x, "Alpha": alpha}, {"mode": mode}, x.dtype)
