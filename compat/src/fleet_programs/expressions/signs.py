"""What the signs between variables mean: +, <, @ and [] append operators, to where layers do it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fleet.errors import UsageTypeError
from fleet_programs.definition.dtypes import FLOATS, canonical
from fleet_programs.definition.kinds import Shape
from fleet_programs.expressions import methods
from fleet_programs.expressions.appending import Appender
from fleet_programs.expressions.subscript import is_plain, subscript

if TYPE_CHECKING:
    from fleet_programs.program.variable import Variable


_NUMBERS = (int, float, np.number)

Sign = Callable[["Signs", Any], "Variable"]


def _sign(op: str, is_reversed: bool = False) -> Sign:
    """The method of a sign between variables."""

    def sign(self: Signs, other: Any) -> Variable:
        return combine(self, other, op, is_reversed)

    return sign


def _both_sides(op: str) -> tuple[Sign, Sign]:
    """The methods of a sign at whose left the variable stands, and at whose right."""
    return _sign(op), _sign(op, is_reversed=True)


class Signs:
    """The signs of a variable, over one thing that it says: where operators are appended."""

    __array_ufunc__ = None  # numpy's numbers at the left of a sign leave it to us

    name: str
    shape: Shape
    dtype: str

    @abstractmethod
    def appender(self, kind: str) -> Appender:
        """What appends the operators of one sign, where layers append theirs."""

    __add__, __radd__ = _both_sides("elementwise_add")
    __sub__, __rsub__ = _both_sides("elementwise_sub")
    __mul__, __rmul__ = _both_sides("elementwise_mul")
    __truediv__, __rtruediv__ = _both_sides("elementwise_div")
    __pow__, __rpow__ = _both_sides("elementwise_pow")
    __floordiv__, __rfloordiv__ = _both_sides("elementwise_floordiv")
    __mod__, __rmod__ = _both_sides("elementwise_mod")
    __lt__ = _sign("less_than")
    __le__ = _sign("less_equal")
    __gt__ = _sign("greater_than")
    __ge__ = _sign("greater_equal")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        """Compares with a number, value by value; two variables are equal if they are one, as lists ask it."""
        return combine(self, other, "equal") if isinstance(other, _NUMBERS) else NotImplemented

    def __ne__(self, other: object) -> Any:
        """What `==` says, the other way round."""
        return combine(self, other, "not_equal") if isinstance(other, _NUMBERS) else NotImplemented

    def __neg__(self) -> Variable:
        return combine(self, -1.0, "elementwise_mul")

    def __matmul__(self, other: Variable) -> Variable:
        layer = self.appender("matmul")
        if not isinstance(other, Signs):
            raise layer.not_a_variable(other, "y")
        attrs = {"transpose_X": False, "transpose_Y": False, "alpha": 1.0}
        return layer.apply("matmul", {"X": self, "Y": other}, attrs, self.dtype)

    def __getitem__(self, key: Any) -> Variable:
        """Numbers, slices without a step and one `...`, as torch takes them.

        A number leaves its dimension out; where none is left the shape is [1], as of all single values. What else a
        package that provides `__getitem__` takes (see `methods`) is its own.
        """
        if not is_plain(key) and (others := methods.found(cast("Variable", self), "__getitem__")) is not None:
            taken: Variable = others(key)
            return taken
        layer = self.appender("slice")
        attrs = subscript(layer, self.name, len(self.shape), key)
        is_needed = any(self.shape[axis] < 0 for axis in attrs["axes"])
        return layer.apply_with_shape("slice", {"Input": self}, attrs, self.dtype, is_needed=is_needed)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Of a package that provides `__setitem__` (see `methods`); UsageError where there is none."""
        write = methods.found(cast("Variable", self), "__setitem__")
        if write is None:
            raise self.appender("slice").error(
                f"{self.name!r} takes no new values between []; use layers.where, layers.scatter or layers.concat"
            )
        write(key, value)

    def astype(self, dtype: Any) -> Variable:
        """The same values as another dtype."""
        layer, wanted = self.appender("cast"), canonical(dtype)
        return layer.apply("cast", {"X": self}, {"in_dtype": self.dtype, "out_dtype": wanted}, wanted)


def combine(x: Signs, other: Any, op: str, is_reversed: bool = False) -> Variable:
    """`x (op) other`, or `other (op) x` if reversed, for the signs between variables; a number becomes one `scale`."""
    if isinstance(other, Signs):
        # As the left side decides what the result is, the right one is cast to it; what is compared loses no fraction.
        left, right = (other, x) if is_reversed else (x, other)
        wanted = "float32" if op == "elementwise_div" and left.dtype not in FLOATS else left.dtype
        if not op.startswith("elementwise_") and wanted not in FLOATS and right.dtype in FLOATS:
            wanted = right.dtype
        return _signed(x.appender(op), op, _as(left, wanted), _as(right, wanted))
    number = as_number(other, "a Variable goes together with Variables and numbers")
    if x.dtype not in FLOATS and (op == "elementwise_div" or not number.is_integer()):
        x = x.astype("float32")
    if op == "elementwise_add":
        return _scaled(x, 1.0, number)
    if op == "elementwise_sub":
        return _scaled(x, -1.0, number) if is_reversed else _scaled(x, 1.0, -number)
    if op == "elementwise_mul":
        return _scaled(x, number, 0.0)
    if op == "elementwise_div" and not is_reversed and number != 0:
        return _scaled(x, 1.0 / number, 0.0)
    layer = x.appender(op)
    constant = layer.apply("fill_constant", {}, {"shape": [1], "value": number, "dtype": x.dtype}, x.dtype)
    constant.stop_gradient = True
    return _signed(layer, op, *((constant, x) if is_reversed else (x, constant)))


def _signed(layer: Appender, op: str, left: Signs, right: Signs) -> Variable:
    out = layer.apply(op, {"X": left, "Y": right}, {"axis": _axis(left.shape, right.shape)}, left.dtype)
    out.stop_gradient = out.dtype == "bool"
    return out


def _axis(left: Shape, right: Shape) -> int:
    """Where the right side lies: at the end, or at the front where its rows would meet columns, as before 2.0."""
    before = len(left) - len(right)
    are_rows = before > 0 and len(right) > 0 and left[0] == right[0] == -1
    return 0 if are_rows and left[before] > 1 else -1


def _scaled(x: Signs, scale: float, bias: float) -> Variable:
    attrs = {"scale": scale, "bias": bias, "bias_after_scale": True}
    return x.appender("scale").apply("scale", {"X": x}, attrs, x.dtype)


def _as(x: Signs, dtype: str) -> Signs:
    return x if x.dtype == dtype else x.astype(dtype)


def as_number(value: Any, rule: str) -> float:
    """A number as a float, numpy's too; UsageTypeError with the rule if it is none."""
    if not isinstance(value, Signs) and getattr(value, "shape", ()) == ():
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise UsageTypeError(f"{rule}, got {type(value).__name__}; make a Variable of an array with layers.assign()")
