"""Arithmetic on variables, under the names of its functions; `fleet.static.signs` has the signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.static.layers.helper import Layer
from fleet.static.signs import as_number
from fleet.static.variable import Variable

__all__ = [
    "cast",
    "increment",
    "scale",
    "sum",
    "sums",
]

Number = int | float


def scale(
    x: Variable,
    scale: Number = 1.0,
    bias: Number = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """x * scale + bias, or (x + bias) * scale without `bias_after_scale`."""
    layer = Layer("scale", name)
    x = layer.variable(x, "x")
    rule = "scale: scale and bias must be numbers; multiply and add Variables with * and +"
    attrs = {
        "scale": as_number(scale, rule),
        "bias": as_number(bias, rule),
        "bias_after_scale": bool(bias_after_scale),
    }
    return layer.activate(layer.apply("scale", {"X": x}, attrs, x.dtype), act)


def cast(x: Variable, dtype: Any) -> Variable:
    """The same values as another dtype."""
    if not isinstance(x, Variable):
        raise Layer("cast").not_a_variable(x, "x")
    return x.astype(dtype)


def sums(input: Sequence[Variable] | Variable, out: Variable | None = None) -> Variable:
    """The sum of several variables of one shape, as `out` if given."""
    layer = Layer("sum")
    several = [input] if isinstance(input, Variable) else [layer.variable(one) for one in input]
    if not several:
        raise layer.error("input must hold at least one Variable")
    total = layer.temporary(several[0].dtype) if out is None else layer.target(out, several)
    layer.op("sum", {"X": several}, {"Out": total})
    return total


def sum(x: Sequence[Variable] | Variable) -> Variable:
    """The sum of several variables of one shape."""
    return sums(x)


def increment(x: Variable, value: Number = 1.0, in_place: bool = True) -> Variable:
    """x + value for a counter; with `in_place` the variable itself grows."""
    layer = Layer("increment")
    x = layer.variable(x, "x")
    if in_place and x.is_data:
        raise layer.error(f"{x.name!r} is fed and cannot be changed in place; use in_place=False")
    out = x if in_place else layer.temporary(x.dtype)
    layer.op("increment", {"X": x}, {"Out": out}, {"step": float(value)})
    return out
