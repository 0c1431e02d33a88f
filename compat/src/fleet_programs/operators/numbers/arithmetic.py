"""Arithmetic of one variable: scale, cast, clip, cumsum, increment."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from fleet_programs.definition.dtypes import DTYPES, FLOATS, torch_dtype
from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register, register_grad, same_as
from fleet_programs.expressions.signs import as_number
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import always, axis_of, bound, computes, view


def _infer_scale(infer: Infer) -> None:
    x = infer.var("X")
    if x.dtype not in FLOATS:
        for name in ("scale", "bias"):
            if float(infer.attr(name)) != int(infer.attr(name)):
                raise infer.fail(
                    f"X {x.name!r} is {x.dtype} and cannot take {name} {infer.attr(name)}; cast it to a float first"
                )
    if x.kind == ROWS and (infer.attr("bias") or infer.op.in_place):
        raise infer.fail(f"X {x.name!r} is sparse rows, which are scaled to another variable and without a bias")
    infer.set("Out", x.shape, x.dtype, lod=x.lod, kind=x.kind)


def _scale_attrs(given: dict[str, Any]) -> dict[str, Any]:
    rule = "scale: scale and bias must be numbers; multiply and add Variables with * and +"
    numbers = {name: as_number(given[name], rule) for name in ("scale", "bias")}
    return numbers | {"bias_after_scale": bool(given["bias_after_scale"])}


@register(
    "scale",
    inputs=("X",),
    in_place=True,
    attrs={"scale": 1.0, "bias": 0.0, "bias_after_scale": True},
    infer=_infer_scale,
    grad=Grad(),
    takes_rows=True,
    calls=Calls(
        "x * scale + bias, or (x + bias) * scale without `bias_after_scale`.",
        "scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name)",
        to_attrs=_scale_attrs,
    ),
)
def _scale(op: Operator, lowering: Lowering) -> Kernel:
    var = lowering.var(op.input("X")[0])
    number = float if var.dtype in FLOATS else int
    scale, bias = number(op.attr("scale")), number(op.attr("bias"))
    if var.kind == ROWS:
        return lambda rows: rows.scaled(scale)
    if op.in_place:
        return _scale_in_place(scale, bias, op.attr("bias_after_scale"))
    if bias == 0:
        return lambda x: x * scale
    if scale == 1:
        return lambda x: x + bias
    if op.attr("bias_after_scale"):
        return lambda x: (x * scale).add_(bias)
    return lambda x: (x + bias).mul_(scale)


def _scale_in_place(scale: float, bias: float, bias_after_scale: bool) -> Kernel:
    def scaled(x: torch.Tensor) -> None:
        if bias_after_scale:
            x.mul_(scale).add_(bias)
        else:
            x.add_(bias).mul_(scale)

    return scaled


@register_grad("scale", as_autograd=True)
def _scale_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    scale = op.attr("scale")
    return (lambda grad: grad) if scale == 1 else (lambda grad: grad * scale)


def _infer_cast(infer: Infer) -> None:
    if infer.attr("out_dtype") not in DTYPES:
        raise infer.fail(f"out_dtype must be one of {', '.join(DTYPES)}, got {infer.attr('out_dtype')!r}")
    x = infer.var("X")
    infer.set("Out", x.shape, infer.attr("out_dtype"), lod=x.lod)


@register("cast", inputs=("X",), attrs={"in_dtype": "", "out_dtype": "float32"}, infer=_infer_cast, grad=Grad())
def _cast(op: Operator, lowering: Lowering) -> Kernel:
    dtype = torch_dtype(op.attr("out_dtype"))
    if lowering.dtype(op.input("X")[0]) == op.attr("out_dtype"):
        return view(lambda x: x, op, lowering)
    return lambda x: x.to(dtype)


@register_grad("cast", as_autograd=True)
def _cast_grad(op: Operator, lowering: Lowering) -> Kernel:
    dtype = torch_dtype(lowering.dtype(op.output("X@GRAD")[0]))
    return lambda grad: grad.to(dtype)


@computes("sign", same_as("X"), "sign(x)", "sign(x, name)", grad=Grad(needs=("X",)))
def _sign(x: torch.Tensor) -> torch.Tensor:
    """-1, 0 or 1 for each element."""
    return torch.sign(x)


register_grad("sign")(always(lambda x, grad: torch.zeros_like(grad)))  # noqa: ARG005


def _infer_cumsum(infer: Infer) -> None:
    axis_of(infer, infer.attr("axis"), len(infer.shape("X")))
    infer.like("Out", "X")


_CUMSUM = {"axis": -1, "exclusive": False, "reverse": False}


@computes("cumsum", _infer_cumsum, "cumsum(x, axis=None, exclusive=None, reverse=None)", attrs=_CUMSUM, grad=Grad())
def _running_sum(x: torch.Tensor, axis: int, exclusive: bool, reverse: bool) -> torch.Tensor:
    """The sum of all elements up to each along an axis; without itself if `exclusive`, from the end if `reverse`."""
    given = x.flip(axis) if reverse else x
    out = given.cumsum(axis, dtype=x.dtype)
    if exclusive:
        out = out - given
    return out.flip(axis) if reverse else out


@register_grad("cumsum")
def _cumsum_grad(op: Operator, lowering: Lowering) -> Kernel:
    return partial(bound(_running_sum, *_CUMSUM)(op, lowering), reverse=not op.attr("reverse"))


def _infer_increment(infer: Infer) -> None:
    x = infer.var("X")
    if x.dtype not in FLOATS and infer.attr("step") != int(infer.attr("step")):
        raise infer.fail(f"X {x.name!r} is {x.dtype} and cannot grow by {infer.attr('step')}")
    infer.like("Out", "X")


@register("increment", inputs=("X",), attrs={"step": 1.0}, infer=_infer_increment, in_place=True, grad=Grad())
def _increment(op: Operator, lowering: Lowering) -> Kernel:
    step = op.attr("step") if lowering.dtype(op.input("X")[0]) in FLOATS else int(op.attr("step"))
    if not op.in_place:
        return lambda x: x + step

    def grow(x: torch.Tensor) -> None:
        x.add_(step)

    return grow


register_grad("increment")(always(lambda grad: grad))
