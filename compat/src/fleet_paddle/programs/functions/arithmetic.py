"""Functions of each element: arithmetic, comparison, logic; a number goes where a second variable does."""

from __future__ import annotations

from typing import Any

from fleet.static import layers
from fleet.static.layers.helper import Layer
from fleet.static.signs import combine
from fleet.static.variable import Variable

__all__ = [
    "add_n",
    "dot",
    "increment",
    "pow",
    "scale",
]


def pow(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x to the power of y, a number or a variable."""
    return layers.elementwise_pow(x, y, name=name) if isinstance(y, Variable) else layers.pow(x, y, name)


def scale(
    x: Variable,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """scale * x + bias, or scale * (x + bias); `scale` may be a variable."""
    if not isinstance(scale, Variable):
        return layers.scale(x, scale, bias, bias_after_scale, act, name)
    made = combine(x, scale, "elementwise_mul") + bias if bias_after_scale else (x + bias) * scale
    return Layer("scale", name).activate(made, act)


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The sum of the products of two vectors, or of each two of many, which keeps a size of 1."""
    return layers.reduce_sum(layers.elementwise_mul(x, y), -1, x.ndim > 1, name)


def add_n(inputs: Any, name: str | None = None) -> Variable:  # noqa: ARG001
    """The sum of several variables of one shape."""
    return layers.sums(inputs)


def increment(x: Variable, value: float = 1.0, name: str | None = None) -> Variable:  # noqa: ARG001
    """x + value, in place."""
    return layers.increment(x, value)
