"""Operators that programs are never without: constants, sums, copies."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import torch

from fleet_programs.definition.dtypes import torch_dtype
from fleet_programs.definition.kinds import ARRAY, ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, may_equal, register, register_grad, same_as
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows
from fleet_programs.kernel.runs import added
from fleet_programs.operators.common.making import compared
from fleet_programs.operators.common.sizes import infer_sizes, sizes_of


def _infer_constant(infer: Infer) -> None:
    infer.set("Out", infer_sizes(infer), infer.attr("dtype"))


def _constant_attrs(given: dict[str, Any]) -> dict[str, Any]:
    """The value as a number that JSON has, whatever numpy calls it; whole ones stay whole."""
    value = given["value"]
    return given | {"value": int(value) if isinstance(value, int | np.integer) else float(value)}


@register(
    "fill_constant",
    inputs=("Sizes*",),
    attrs={"shape": [1], "value": 0.0, "dtype": "float32"},
    infer=_infer_constant,
    calls=Calls(v1="fill_constant(shape, dtype, value, force_cpu=False, out=None)", to_attrs=_constant_attrs),
)
def _fill_constant(op: Operator, lowering: Lowering) -> Kernel:
    """`value` everywhere, as `out` if given; sizes may be variables, such as `shape(x)[0]`."""
    shape, value, dtype = op.attr("shape"), op.attr("value"), torch_dtype(op.attr("dtype"))
    if op.input("Sizes"):
        sizes = sizes_of(op)
        return lambda *given: torch.full(sizes(given), value, dtype=dtype, device=lowering.device)
    return lambda: torch.full(shape, value, dtype=dtype, device=lowering.device)


@register(
    "fill_zeros_like",
    inputs=("X",),
    infer=same_as("X"),
    calls=Calls("0 everywhere, shaped as `x`.", "zeros_like(x, out=None)", kind="zeros_like"),
)
def _fill_zeros_like(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return torch.zeros_like


def _infer_assign(infer: Infer) -> None:
    x = infer.var("X")
    infer.set("Out", x.shape, x.dtype, lod=x.lod, kind=ARRAY if x.kind == ARRAY else None)


@register(
    "assign",
    inputs=("X",),
    infer=_infer_assign,
    grad=Grad(),
    takes_arrays=True,
    calls=Calls("A copy, through which gradients flow.", v2="clone(x, name)", torch=torch.clone),
)
def _assign(op: Operator, lowering: Lowering) -> Kernel:
    return list if lowering.var(op.input("X")[0]).kind == ARRAY else torch.clone


@register_grad("assign", as_autograd=True)
def _assign_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    return lambda grad: grad


def _added_up(inputs: Any) -> torch.Tensor:
    first, *others = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
    total: torch.Tensor = first.clone()
    for one in others:
        total = total + one
    return total


def _infer_sum(infer: Infer) -> None:
    first = infer.var("X")
    for other in infer.vars("X")[1:]:
        if not may_equal(first.shape, other.shape):
            raise infer.fail(
                f"{first.name!r} of shape {list(first.shape)} and {other.name!r} of {list(other.shape)} do not add"
            )
    kinds = {var.kind for var in infer.vars("X")}
    kind = ROWS if kinds == {ROWS} else ARRAY if ARRAY in kinds else None
    infer.set("Out", first.shape, first.dtype, lod=first.lod, kind=kind)


@register(
    "sum",
    inputs=("X*",),
    infer=_infer_sum,
    grad=Grad(wrt=("X",)),
    rebinds=True,
    takes_rows=True,
    takes_arrays=True,
    calls=[
        Calls("The sum of several variables of one shape, as `out` if given.", "sums(input, out=None)"),
        Calls("The sum of several variables of one shape.", "sum(x)", "add_n(inputs, name)", _added_up),
    ],
)
def _sum(op: Operator, lowering: Lowering) -> Kernel:
    kinds = [lowering.var(name).kind for name in op.input("X")]
    if ROWS in kinds:
        return lambda *parts: Rows.added(parts)
    if ARRAY in kinds:
        return lambda *parts: reduce(added, parts)
    if len(kinds) == 2:
        return compared(torch.add, op, lowering)

    def add(*parts: torch.Tensor) -> torch.Tensor:
        total = parts[0].clone()
        for part in parts[1:]:
            total.add_(part)
        return total

    return compared(add, op, lowering)


@register_grad("sum", as_autograd=True)
def _sum_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    count = len(op.output("X@GRAD"))
    return (lambda grad: grad) if count == 1 else (lambda grad: (grad,) * count)
