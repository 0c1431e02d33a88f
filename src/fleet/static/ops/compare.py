"""Comparisons and logic, whose results are bool; and whether a variable holds only numbers."""

from __future__ import annotations

import torch

from fleet.static.executor.lowering import Lowering
from fleet.static.operator import Operator
from fleet.static.ops.elementwise import Binary, elementwise_kernel, infer_elementwise
from fleet.static.ops.making import always
from fleet.static.registry import Infer, Kernel, register

_BOOL = frozenset({"bool"})


def _infer_compare(infer: Infer) -> None:
    infer_elementwise(infer, "bool")


def _infer_logic(infer: Infer) -> None:
    infer.require_dtype("X", _BOOL)
    infer.require_dtype("Y", _BOOL)
    infer_elementwise(infer)


def _binary(type: str, function: Binary, is_logic: bool) -> None:
    infer = _infer_logic if is_logic else _infer_compare

    @register(type, inputs=("X", "Y"), attrs={"axis": -1}, infer=infer)
    def _(op: Operator, lowering: Lowering) -> Kernel:
        return elementwise_kernel(function, op, lowering)


for _type, _function in {
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less_than": torch.lt,
    "less_equal": torch.le,
    "greater_than": torch.gt,
    "greater_equal": torch.ge,
}.items():
    _binary(_type, _function, False)

for _type, _logic in {
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}.items():
    _binary(_type, _logic, True)


def _infer_not(infer: Infer) -> None:
    infer.require_dtype("X", _BOOL)
    infer.like("Out", "X")


register("logical_not", inputs=("X",), infer=_infer_not)(always(torch.logical_not))


def _infer_test(infer: Infer) -> None:
    infer.set("Out", [1], "bool")


register("isfinite", inputs=("X",), infer=_infer_test)(always(lambda x: x.isfinite().all().view(1)))
register("isnan", inputs=("X",), infer=_infer_test)(always(lambda x: x.isnan().any().view(1)))
register("isinf", inputs=("X",), infer=_infer_test)(always(lambda x: x.isinf().any().view(1)))
