"""Functions of each element: arithmetic, comparison, logic; a number goes where a second variable does."""

from __future__ import annotations

from typing import Any

from fleet.errors import UsageError
from fleet.static import layers
from fleet.static.layers.helper import Layer
from fleet.static.signs import combine
from fleet.static.variable import Variable

__all__ = [
    "add",
    "add_n",
    "bmm",
    "clip",
    "divide",
    "dot",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater_equal",
    "greater_than",
    "increment",
    "isfinite",
    "isinf",
    "isnan",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "maximum",
    "minimum",
    "mm",
    "mod",
    "multiply",
    "not_equal",
    "pow",
    "remainder",
    "scale",
    "sign",
    "subtract",
]

logical_and = layers.logical_and
logical_not = layers.logical_not
logical_or = layers.logical_or
logical_xor = layers.logical_xor


_WITHOUT_AXIS = ("elementwise_add", "elementwise_sub", "elementwise_div", "elementwise_floordiv", "elementwise_mod")
"""Version 2.0 gives `axis` to the others alone."""


def _two(op: str, what: str) -> Any:
    def call(x: Any, y: Any, axis: int = -1, name: str | None = None) -> Variable:
        if axis != -1:
            return Layer(op, name).apply(op, {"X": x, "Y": y}, {"axis": int(axis)}, x.dtype)
        if isinstance(x, Variable):
            return combine(x, y, op)
        if isinstance(y, Variable):
            return combine(y, x, op, True)
        raise UsageError(f"{op}: x or y must be a Variable, got {x!r} and {y!r}")

    def compare(x: Any, y: Any, name: str | None = None) -> Variable:  # noqa: ARG001 - results name themselves
        return call(x, y)

    made = call if op.startswith("elementwise") and op not in _WITHOUT_AXIS else compare
    made.__doc__ = f"{what}, element by element."
    return made


add = _two("elementwise_add", "x + y")
subtract = _two("elementwise_sub", "x - y")
multiply = _two("elementwise_mul", "x * y")
divide = _two("elementwise_div", "x / y")
floor_divide = _two("elementwise_floordiv", "x / y rounded down")
mod = remainder = floor_mod = _two("elementwise_mod", "What is left of x / y, with the sign of y")
maximum = _two("elementwise_max", "The larger of both")
minimum = _two("elementwise_min", "The smaller of both")
equal = _two("equal", "Whether x == y")
not_equal = _two("not_equal", "Whether x != y")
less_than = _two("less_than", "Whether x < y")
less_equal = _two("less_equal", "Whether x <= y")
greater_than = _two("greater_than", "Whether x > y")
greater_equal = _two("greater_equal", "Whether x >= y")


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


def isfinite(x: Variable, name: str | None = None) -> Variable:  # noqa: ARG001
    """Which elements are numbers, neither NaN nor infinite."""
    return combine(combine(x, x, "elementwise_sub"), 0.0, "equal")  # inf - inf is no number


def isnan(x: Variable, name: str | None = None) -> Variable:  # noqa: ARG001
    """Which elements are NaN."""
    return combine(x, x, "not_equal")


def isinf(x: Variable, name: str | None = None) -> Variable:  # noqa: ARG001
    """Which elements are infinite."""
    return layers.logical_and(layers.logical_not(isfinite(x)), combine(x, x, "equal"))


def matmul(
    x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None
) -> Variable:
    """The product of matrices, or of batches of them."""
    return layers.matmul(x, y, transpose_x, transpose_y, name=name)


def mm(input: Variable, mat2: Variable, name: str | None = None) -> Variable:
    """The product of two matrices."""
    return layers.matmul(input, mat2, name=name)


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The products of two batches of matrices."""
    return layers.matmul(x, y, name=name)


def sign(x: Variable, name: str | None = None) -> Variable:  # noqa: ARG001
    """-1, 0 or 1 for each element."""
    return layers.sign(x)


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The sum of the products of two vectors, or of each two of many, which keeps a size of 1."""
    return layers.reduce_sum(layers.elementwise_mul(x, y), -1, x.ndim > 1, name)


def add_n(inputs: Any, name: str | None = None) -> Variable:  # noqa: ARG001
    """The sum of several variables of one shape."""
    return layers.sums(inputs)


def clip(x: Variable, min: float | None = None, max: float | None = None, name: str | None = None) -> Variable:
    """Every element between `min` and `max`."""
    low, high = float("-inf") if min is None else min, float("inf") if max is None else max
    return layers.clip(x, low, high, name)


def increment(x: Variable, value: float = 1.0, name: str | None = None) -> Variable:  # noqa: ARG001
    """x + value, in place."""
    return layers.increment(x, value)
