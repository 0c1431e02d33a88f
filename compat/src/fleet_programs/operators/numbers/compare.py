"""Comparisons and logic, whose results are bool; and whether a variable holds only numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import always
from fleet_programs.operators.numbers.elementwise import elementwise_kernel, infer_elementwise

_BOOL = frozenset({"bool"})


def _infer_compare(infer: Infer) -> None:
    infer_elementwise(infer, "bool")


def _infer_logic(infer: Infer) -> None:
    infer.require_dtype("X", _BOOL)
    infer.require_dtype("Y", _BOOL)
    infer_elementwise(infer)


def _writing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch whose last argument is what it writes to, or None."""
    return lambda *given: function(*given[:-1], out=given[-1])


def _binary(type: str, function: Callable[..., Any], infer: Callable[[Infer], None], calls: Calls) -> None:
    @register(type, inputs=("X", "Y"), attrs={"axis": -1}, infer=infer, calls=calls)
    def _(op: Operator, lowering: Lowering) -> Kernel:
        return elementwise_kernel(function, op, lowering)


for _type, _function, _doc in (
    ("equal", torch.eq, "x == y"),
    ("not_equal", torch.ne, "x != y"),
    ("less_than", torch.lt, "x < y"),
    ("less_equal", torch.le, "x <= y"),
    ("greater_than", torch.gt, "x > y"),
    ("greater_equal", torch.ge, "x >= y"),
):
    _hint = "force_cpu=None, " if _type == "less_than" else ""
    _calls = Calls(
        f"{_doc}, element by element; 1.x writes it to `cond` if given.",
        f"{_type}(x, y, {_hint}cond=None)",
        f"{_type}(x, y, name)",
        _function,
        is_sign=True,
    )
    _binary(_type, _function, _infer_compare, _calls)

for _type, _logic, _doc in (
    ("logical_and", torch.logical_and, "Whether both are true, written to `out` if given."),
    ("logical_or", torch.logical_or, "Whether one is true, or both; written to `out` if given."),
    ("logical_xor", torch.logical_xor, "Whether one is true and not both; written to `out` if given."),
):
    _same = f"{_type}(x, y, out=None, name)"
    _binary(_type, _logic, _infer_logic, Calls(_doc, _same, _same, _writing(_logic)))


def _infer_not(infer: Infer) -> None:
    infer.require_dtype("X", _BOOL)
    infer.like("Out", "X")


_SAME = "logical_not(x, out=None, name)"
register(
    "logical_not",
    inputs=("X",),
    infer=_infer_not,
    calls=Calls("Whether it is false, written to `out` if given.", _SAME, _SAME, _writing(torch.logical_not)),
)(always(torch.logical_not))


def _infer_test(infer: Infer) -> None:
    infer.set("Out", [1], "bool")


def _infer_each(infer: Infer) -> None:
    x = infer.var("X")
    infer.set("Out", x.shape, "bool", lod=x.lod)


for _type, _v1, _whole, _each, _doc in (
    ("isfinite", "isfinite(x)", lambda x: x.isfinite().all(), torch.isfinite, "neither infinite nor NaN"),
    ("isnan", "has_nan(x)", lambda x: x.isnan().any(), torch.isnan, "NaN"),
    ("isinf", "has_inf(x)", lambda x: x.isinf().any(), torch.isinf, "infinite"),
):
    _asked = "all elements are" if _type == "isfinite" else "an element is"
    register(_type, inputs=("X",), infer=_infer_test, calls=Calls(f"Whether {_asked} {_doc}.", _v1))(
        always(lambda x, whole=_whole: whole(x).view(1))
    )
    _calls = Calls(f"Which elements are {_doc}.", v2=f"{_type}(x, name)", torch=_each)
    register(f"{_type}_v2", inputs=("X",), infer=_infer_each, calls=_calls)(always(_each))
