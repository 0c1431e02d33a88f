"""Arithmetic on variables: what the signs between them mean, and the functions behind those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import UsageTypeError
from fleet.static.dtypes import FLOATS, canonical
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = [
    "cast",
    "increment",
    "scale",
    "sum",
    "sums",
]

Number = int | float


def combine(x: Variable, other: Any, op: str, is_reversed: bool = False) -> Variable:
    """`x (op) other`, or `other (op) x` if reversed, for the signs between variables; a number becomes one `scale`."""
    if isinstance(other, Variable):
        # As the left side decides what the result is, the right one is cast to it; what is compared loses no fraction.
        left, right = (other, x) if is_reversed else (x, other)
        wanted = "float32" if op == "elementwise_div" and left.dtype not in FLOATS else left.dtype
        if not op.startswith("elementwise_") and wanted not in FLOATS and right.dtype in FLOATS:
            wanted = right.dtype
        return _signed(Layer(op), op, _as(left, wanted), _as(right, wanted))
    number = _number(other, "a Variable goes together with Variables and numbers")
    if x.dtype not in FLOATS and (op == "elementwise_div" or not number.is_integer()):
        x = cast(x, "float32")
    if op == "elementwise_add":
        return scale(x, bias=number)
    if op == "elementwise_sub":
        return scale(x, -1.0, number) if is_reversed else scale(x, bias=-number)
    if op == "elementwise_mul":
        return scale(x, number)
    if op == "elementwise_div" and not is_reversed and number != 0:
        return scale(x, 1.0 / number)
    layer = Layer(op)
    constant = layer.apply("fill_constant", {}, {"shape": [1], "value": number, "dtype": x.dtype}, x.dtype)
    constant.stop_gradient = True
    return _signed(layer, op, *((constant, x) if is_reversed else (x, constant)))


def _signed(layer: Layer, op: str, left: Variable, right: Variable) -> Variable:
    out = layer.apply(op, {"X": left, "Y": right}, {"axis": -1}, left.dtype)
    out.stop_gradient = out.dtype == "bool"
    return out


def _as(x: Variable, dtype: str) -> Variable:
    return x if x.dtype == dtype else cast(x, dtype)


def _number(value: Any, rule: str) -> float:
    """A number as a float, numpy's too; UsageTypeError with the rule if it is none."""
    if not isinstance(value, Variable) and getattr(value, "shape", ()) == ():
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise UsageTypeError(f"{rule}, got {type(value).__name__}; make a Variable of an array with layers.assign()")


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
        "scale": _number(scale, rule),
        "bias": _number(bias, rule),
        "bias_after_scale": bool(bias_after_scale),
    }
    return layer.activate(layer.apply("scale", {"X": x}, attrs, x.dtype), act)


def cast(x: Variable, dtype: Any) -> Variable:
    """The same values as another dtype."""
    layer = Layer("cast")
    x, wanted = layer.variable(x, "x"), canonical(dtype)
    return layer.apply("cast", {"X": x}, {"in_dtype": x.dtype, "out_dtype": wanted}, wanted)


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
