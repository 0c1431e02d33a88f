"""Arithmetic on variables, under the names of its functions; `fleet.static.signs` has the signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.static.layers.helper import Layer
from fleet.static.signs import as_number
from fleet.static.variable import Variable

__all__ = [
    "cast",
    "clip",
    "clip_by_norm",
    "cumsum",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "increment",
    "matmul",
    "mul",
    "scale",
    "sign",
    "sum",
    "sums",
]

Number = int | float


def target(layer: Layer, out: Any, inputs: Sequence[Variable]) -> Variable:
    """A variable that a user gives for the result; it cannot be one of the inputs."""
    given = layer.variable(out, "out")
    if any(given.name == one.name for one in inputs):
        raise layer.error(f"out {given.name!r} is also an input and would change under it; give another, or none")
    return given


def _binary(type: str, x: Any, y: Any, axis: int, act: str | None, name: str | None) -> Variable:
    layer = Layer(type, name)
    x, y = layer.variable(x, "x"), layer.variable(y, "y")
    return layer.activate(layer.apply(type, {"X": x, "Y": y}, {"axis": int(axis)}, x.dtype), act)


def elementwise_add(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x + y; `y` is laid beside `x` from dimension `axis` of `x` on, or so that they end together."""
    return _binary("elementwise_add", x, y, axis, act, name)


def elementwise_sub(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x - y, laid as in `elementwise_add`."""
    return _binary("elementwise_sub", x, y, axis, act, name)


def elementwise_mul(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x * y, laid as in `elementwise_add`."""
    return _binary("elementwise_mul", x, y, axis, act, name)


def elementwise_div(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x / y, laid as in `elementwise_add`."""
    return _binary("elementwise_div", x, y, axis, act, name)


def elementwise_max(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The larger of both, laid as in `elementwise_add`."""
    return _binary("elementwise_max", x, y, axis, act, name)


def elementwise_min(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The smaller of both, laid as in `elementwise_add`."""
    return _binary("elementwise_min", x, y, axis, act, name)


def elementwise_pow(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x to the power of y, laid as in `elementwise_add`."""
    return _binary("elementwise_pow", x, y, axis, act, name)


def elementwise_mod(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """What is left of x divided by y, with the sign of y; laid as in `elementwise_add`."""
    return _binary("elementwise_mod", x, y, axis, act, name)


def elementwise_floordiv(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x / y rounded down, laid as in `elementwise_add`."""
    return _binary("elementwise_floordiv", x, y, axis, act, name)


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


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The product of matrices, or of batches of them, times `alpha`; a vector is a row at the left, else a column."""
    layer = Layer("matmul", name)
    inputs = {"X": layer.variable(x, "x"), "Y": layer.variable(y, "y")}
    attrs = {"transpose_X": bool(transpose_x), "transpose_Y": bool(transpose_y), "alpha": float(alpha)}
    return layer.apply("matmul", inputs, attrs, x.dtype)


def mul(
    x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None
) -> Variable:
    """The product of two matrices, which are made of the first `num_col_dims` dimensions of each and of the rest."""
    layer = Layer("mul", name)
    inputs = {"X": layer.variable(x, "x"), "Y": layer.variable(y, "y")}
    return layer.apply(
        "mul", inputs, {"x_num_col_dims": int(x_num_col_dims), "y_num_col_dims": int(y_num_col_dims)}, x.dtype
    )


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
    total = layer.temporary(several[0].dtype) if out is None else target(layer, out, several)
    layer.op("sum", {"X": several}, {"Out": total})
    return total


def sum(x: Sequence[Variable] | Variable) -> Variable:
    """The sum of several variables of one shape."""
    return sums(x)


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """Each element, but not below `min` and not above `max`."""
    layer = Layer("clip", name)
    x = layer.variable(x, "x")
    return layer.apply("clip", {"X": x}, {"min": float(min), "max": float(max)}, x.dtype)


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """x, scaled down so that its Euclidean norm is at most `max_norm`."""
    layer = Layer("clip_by_norm", name)
    x = layer.variable(x, "x")
    return layer.apply("clip_by_norm", {"X": x}, {"max_norm": float(max_norm)}, x.dtype)


def sign(x: Variable) -> Variable:
    """-1, 0 or 1 for each element."""
    layer = Layer("sign")
    x = layer.variable(x, "x")
    return layer.apply("sign", {"X": x}, {}, x.dtype)


def cumsum(
    x: Variable, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None
) -> Variable:
    """The sum of all elements up to each along an axis; without itself if `exclusive`, from the end if `reverse`."""
    layer = Layer("cumsum")
    x = layer.variable(x, "x")
    attrs = {"axis": -1 if axis is None else int(axis), "exclusive": bool(exclusive), "reverse": bool(reverse)}
    return layer.apply("cumsum", {"X": x}, attrs, x.dtype)


def increment(x: Variable, value: Number = 1.0, in_place: bool = True) -> Variable:
    """x + value for a counter; with `in_place` the variable itself grows."""
    layer = Layer("increment")
    x = layer.variable(x, "x")
    if in_place and x.is_data:
        raise layer.error(f"{x.name!r} is fed and cannot be changed in place; use in_place=False")
    out = x if in_place else layer.temporary(x.dtype)
    layer.op("increment", {"X": x}, {"Out": out}, {"step": float(value)})
    return out
