"""Limits: each element within bounds, one variable or several together within a norm. Sparse rows are merged first."""

from __future__ import annotations

from math import ceil, floor, inf, isfinite
from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows
from fleet_programs.operators.common.making import computes, positive

EPSILON = 1e-6
"""Added to the norm, as torch.nn.utils.clip_grad_norm_ does."""


def _infer_limited(infer: Infer) -> None:
    x = infer.var("X")
    infer.set("Out", x.shape, x.dtype, lod=x.lod, kind=x.kind)


def _infer_clip(infer: Infer) -> None:
    if not infer.attr("min") <= infer.attr("max"):
        raise infer.fail(f"min must not be above max, got {infer.attr('min')} and {infer.attr('max')}")
    _infer_limited(infer)


def _on_values(kernel: Kernel, op: Operator, lowering: Lowering) -> Kernel:
    """A kernel that works on the values of sparse rows if the variable has them."""
    if lowering.var(op.input("X")[0]).kind != ROWS:
        return kernel

    def clipped(rows: Rows) -> Rows:
        merged = rows.merged()
        return Rows(merged.index, kernel(merged.values), merged.height)

    return clipped


def _clip(op: Operator, lowering: Lowering) -> Kernel:
    low, high = op.attr("min"), op.attr("max")
    if lowering.var(op.input("X")[0]).dtype in INTEGERS:  # whole numbers within bounds of floats would become floats
        least, most = (ceil(low) if isfinite(low) else None), (floor(high) if isfinite(high) else None)
        return (lambda x: x) if least is most is None else lambda x: x.clamp(least, most)
    return _on_values(lambda x: x.clamp(low, high), op, lowering)


@computes(
    "clip",
    _infer_clip,
    "clip(x, min, max, name)",
    "clip(x, min=None, max=None, name)",
    {"min": -inf, "max": inf},
    grad=Grad(needs=("X",)),
    make=_clip,
    takes_rows=True,
)
def _clamped(x: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
    """Each element, clamped between `min` and `max`."""
    return x.clone() if low is high is None else torch.clamp(x, low, high)


@register_grad("clip", as_autograd=True)
def _clip_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    low, high = op.attr("min"), op.attr("max")
    return lambda x, grad: torch.ops.aten.hardtanh_backward(grad, x, low, high)


def _infer_clip_by_norm(infer: Infer) -> None:
    positive(infer, "max_norm")
    infer.require_dtype("X", FLOATS)
    _infer_limited(infer)


@computes(
    "clip_by_norm",
    _infer_clip_by_norm,
    "clip_by_norm(x, max_norm, name)",
    attrs={"max_norm": 1.0},
    grad=Grad(needs=("X",)),
    around=_on_values,
    takes_rows=True,
)
def _shortened(x: torch.Tensor, max_norm: float) -> torch.Tensor:
    """x, scaled down so that its Euclidean norm is at most `max_norm`."""
    norm: torch.Tensor = torch.linalg.vector_norm(x)
    return x * (max_norm / norm.clamp_min(max_norm))


def _infer_together(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    positive(infer, "max_global_norm")
    if len(infer.op.output("Out")) != len(infer.op.input("X")):
        raise infer.fail(f"Out must be as many as X, got {len(infer.op.output('Out'))} for {len(infer.op.input('X'))}")
    for index, var in enumerate(infer.vars("X")):
        infer.set("Out", var.shape, var.dtype, index=index, kind=var.kind)


@register(
    "clip_by_global_norm",
    inputs=("X*",),
    outputs=("Out*",),
    attrs={"max_global_norm": 1.0},
    infer=_infer_together,
    takes_rows=True,
)
def _clip_by_global_norm(op: Operator, lowering: Lowering) -> Kernel:
    most = op.attr("max_global_norm")
    sparse = [index for index, name in enumerate(op.input("X")) if lowering.var(name).kind == ROWS]

    def clip(*given: Any) -> Any:
        gradients = list(given)
        for index in sparse:
            gradients[index] = gradients[index].merged()
        values = [one.values if isinstance(one, Rows) else one for one in gradients]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(values)))
        factor = (norm + EPSILON).reciprocal_().mul_(most).clamp_(max=1.0)  # stays on the device: nobody waits for it
        scaled: list[Any] = list(torch._foreach_mul(values, factor))
        for index in sparse:
            scaled[index] = Rows(gradients[index].index, scaled[index], gradients[index].height)
        return scaled[0] if len(scaled) == 1 else tuple(scaled)

    return clip
