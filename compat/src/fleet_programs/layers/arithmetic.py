"""Arithmetic on variables, under the names of its functions; `fleet_programs.expressions.signs` has the signs."""

from __future__ import annotations

from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["cast", "increment"]


def cast(x: Variable, dtype: Any) -> Variable:
    """The same values as another dtype."""
    if not isinstance(x, Variable):
        raise LayerBuilder("cast").not_a_variable(x, "x")
    return x.astype(dtype)


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """x + value for a counter; with `in_place` the variable itself grows."""
    layer = LayerBuilder("increment")
    x = layer.variable(x, "x")
    if in_place and x.is_data:
        raise layer.error(f"{x.name!r} is fed and cannot be changed in place; use in_place=False")
    out = x if in_place else layer.temporary(x.dtype)
    layer.op("increment", {"X": x}, {"Out": out}, {"step": float(value)})
    return out
