"""Comparisons and logic; results are bool."""

from __future__ import annotations

from typing import Any

from fleet.static.layers.arithmetic import target
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = [
    "equal",
    "greater_equal",
    "greater_than",
    "has_inf",
    "has_nan",
    "isfinite",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]


def _test(type: str, inputs: dict[str, Any], out: Variable | None = None, name: str | None = None) -> Variable:
    layer = Layer(type, name)
    for slot, value in inputs.items():
        layer.variable(value, slot.lower())
    made = layer.temporary("bool") if out is None else target(layer, out, list(inputs.values()))
    layer.op(type, inputs, {"Out": made})
    made.stop_gradient = True
    return made


def equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x == y, element by element, as `cond` if given."""
    return _test("equal", {"X": x, "Y": y}, cond)


def not_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x != y."""
    return _test("not_equal", {"X": x, "Y": y}, cond)


def less_than(
    x: Variable,
    y: Variable,
    force_cpu: bool | None = None,  # noqa: ARG001 - changes no value
    cond: Variable | None = None,
) -> Variable:
    """x < y."""
    return _test("less_than", {"X": x, "Y": y}, cond)


def less_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x <= y."""
    return _test("less_equal", {"X": x, "Y": y}, cond)


def greater_than(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x > y."""
    return _test("greater_than", {"X": x, "Y": y}, cond)


def greater_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x >= y."""
    return _test("greater_equal", {"X": x, "Y": y}, cond)


def logical_and(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Both are true."""
    return _test("logical_and", {"X": x, "Y": y}, out, name)


def logical_or(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """One is true, or both."""
    return _test("logical_or", {"X": x, "Y": y}, out, name)


def logical_xor(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """One is true, not both."""
    return _test("logical_xor", {"X": x, "Y": y}, out, name)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """It is false."""
    return _test("logical_not", {"X": x}, out, name)


def isfinite(x: Variable) -> Variable:
    """Whether all elements are numbers, none NaN or infinite."""
    return _test("isfinite", {"X": x})


def has_nan(x: Variable) -> Variable:
    """Whether an element is NaN."""
    return _test("isnan", {"X": x})


def has_inf(x: Variable) -> Variable:
    """Whether an element is infinite."""
    return _test("isinf", {"X": x})
