"""A weight divided by its greatest singular value, which every run finds a little better."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of

T = torch.Tensor


def _infer(infer: Infer) -> None:
    infer.require_dtype("Weight", FLOATS)
    shape = infer.shape("Weight")
    height = shape[axis_of(infer, infer.attr("dim"), len(shape), "dim")]
    for slot, size in (("U", height), ("V", math.prod(shape) // height)):
        if infer.shape(slot) != (size,):
            raise infer.fail(f"{slot} must have shape [{size}], got {list(infer.shape(slot))}")
    if infer.attr("power_iters") < 0:
        raise infer.fail(f"power_iters must be >= 0, got {infer.attr('power_iters')}")
    infer.like("Out", "Weight")


def _matrix(weight: T, dim: int) -> T:
    return weight.movedim(dim, 0).flatten(1)


@register(
    "spectral_norm",
    inputs=("Weight", "U", "V"),
    outputs=("Out", "UOut", "VOut"),
    attrs={"dim": 0, "power_iters": 1, "eps": 1e-12},
    infer=_infer,
    grad=Grad(needs=("Weight", "U", "V"), wrt=("Weight",), outs=("Out",)),
)
def _spectral_norm(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    dim, rounds, eps = op.attr("dim"), op.attr("power_iters"), op.attr("eps")

    def divided(weight: T, u: T, v: T) -> T:
        matrix = _matrix(weight, dim)
        for _ in range(rounds):
            v.copy_(functional.normalize(matrix.t().mv(u), dim=0, eps=eps))
            u.copy_(functional.normalize(matrix.mv(v), dim=0, eps=eps))
        return weight / u.dot(matrix.mv(v))

    return divided


@register_grad("spectral_norm")
def _spectral_norm_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """The two vectors are what they are: no gradient goes through finding them."""
    dim = op.attr("dim")

    def gradient(weight: T, u: T, v: T, grad: T) -> Any:
        greatest = u.dot(_matrix(weight, dim).mv(v))
        shape = weight.movedim(dim, 0).shape
        of_greatest = torch.outer(u, v).view(shape).movedim(0, dim)
        return grad / greatest - of_greatest * ((grad * weight).sum() / greatest.square())

    return gradient
