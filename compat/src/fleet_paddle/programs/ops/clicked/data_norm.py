"""`data_norm`: each column with mean 0 and variance 1 over all that training has seen, as counts and sums kept so far.

A column's mean is BatchSum / BatchSize, its scale sqrt(BatchSize / BatchSquareSum). Training adds each batch to them,
after what was there has lost a little: `summary_decay_rate` of it stays.
"""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering

KEPT = ("BatchSize", "BatchSum", "BatchSquareSum")
_NEVER_SHOWN = 1e-7
"""A slot whose first number, a count of shows, is below this has no values."""


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 2)
    x, slot_dim = infer.var("X"), infer.attr("slot_dim")
    if slot_dim > 0 and x.shape[1] % slot_dim:
        raise infer.fail(f"slot_dim must divide the {x.shape[1]} columns of X {x.name!r}, got {slot_dim}")
    for slot in (*KEPT, "Scale", "Bias"):
        if infer.has(slot) and infer.shape(slot) != (x.shape[1],):
            raise infer.fail(f"{slot} must have shape [{x.shape[1]}], got {list(infer.shape(slot))}")
    if infer.has("Scale") != infer.has("Bias"):
        raise infer.fail("Scale and Bias must both be given, or none of them")
    infer.like("Y", "X")
    for slot in ("Means", "Scales"):
        infer.set(slot, (x.shape[1],), x.dtype)


@register(
    "data_norm",
    inputs=("X", *KEPT, "Scale?", "Bias?"),
    outputs=("Y", "Means", "Scales", *(f"{slot}Out?" for slot in KEPT)),
    attrs={"epsilon": 1e-5, "slot_dim": -1, "summary_decay_rate": 0.9999999, "is_test": False},
    infer=_infer,
    grad=Grad(needs=("X", "Means", "Scales", "Scale", "Bias"), wrt=("X", "Scale", "Bias"), outs=("Y",)),
)
def _data_norm(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    slot_dim, epsilon, decay = (op.attr(name) for name in ("slot_dim", "epsilon", "summary_decay_rate"))
    is_kept = bool(op.output("BatchSizeOut")) and not op.attr("is_test")

    def norm(
        x: torch.Tensor, size: torch.Tensor, total: torch.Tensor, squares: torch.Tensor, *affine: torch.Tensor
    ) -> Any:
        means, scales = total / size, torch.sqrt(size / squares)
        shown = _shown(x, slot_dim)
        away = x - means
        y = away * scales
        if affine:
            y = y * affine[0] + affine[1]
        if shown is not None:
            y, away = y * shown, away * shown
        if is_kept:
            count: Any = len(x) if shown is None else shown.sum(0)
            sums = x.sum(0) if shown is None else (x * shown).sum(0)
            size.mul_(decay).add_(count)
            total.mul_(decay).add_(sums)
            squares.mul_(decay).add_(away.square().sum(0)).add_(count * epsilon)
        return y, means, scales

    return norm


@register_grad("data_norm")
def _data_norm_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    slot_dim, has_affine = op.attr("slot_dim"), bool(op.input("Scale"))
    wanted = [bool(op.output(f"{slot}@GRAD")) for slot in ("X", "Scale", "Bias")]

    def gradient(x: torch.Tensor, means: torch.Tensor, scales: torch.Tensor, *given: torch.Tensor) -> Any:
        grad, shown = given[-1], _shown(x, slot_dim)
        grad = grad if shown is None else grad * shown
        found = []
        if wanted[0]:
            found.append(grad * (scales * given[0] if has_affine else scales))
        if wanted[1]:
            found.append((grad * (x - means) * scales).sum(0))
        if wanted[2]:
            found.append(grad.sum(0))
        return found[0] if len(found) == 1 else tuple(found)

    return gradient


def _shown(x: torch.Tensor, slot_dim: int) -> torch.Tensor | None:
    """1 for the columns of slots that have values, 0 for the others; None where all have."""
    if slot_dim <= 0:
        return None
    has = x[:, ::slot_dim].abs() >= _NEVER_SHOWN
    return has.repeat_interleave(slot_dim, 1, output_size=x.shape[1]).to(x.dtype)
