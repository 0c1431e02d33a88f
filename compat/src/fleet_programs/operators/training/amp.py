"""What mixed precision does with gradients: they are looked at and divided by the loss's factor, and that follows."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows

SMALLEST = 1.0
"""The factor never shrinks below this."""


def _infer_check(infer: Infer) -> None:
    for index, var in enumerate(infer.vars("X")):
        infer.set("Out", var.shape, var.dtype, index=index)
    infer.set("FoundInfinite", (1,), "bool")


@register(
    "check_finite_and_unscale",
    inputs=("X*", "Scale"),
    outputs=("Out*", "FoundInfinite"),
    infer=_infer_check,
    rebinds=True,
    takes_rows=True,
)
def _check_finite_and_unscale(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Divides gradients by the factor of the loss, and tells whether one of them is NaN or Inf."""

    def run(*values: Any) -> Any:
        *gradients, factor = values
        parts = [one.values if isinstance(one, Rows) else one for one in gradients]
        divided = [(part / factor).to(part.dtype) for part in parts]  # float16 has no factor of 65,536
        found = torch.stack([~torch.isfinite(part).all() for part in divided]).any().view(1)
        made = [
            Rows(one.index, part, one.height) if isinstance(one, Rows) else part
            for one, part in zip(gradients, divided, strict=True)
        ]
        return (*made, found)

    return run


def _infer_update(infer: Infer) -> None:
    for index, var in enumerate(infer.vars("X")):
        infer.set("Out", var.shape, var.dtype, index=index)
    infer.like("LossScaling", "PrevLossScaling")
    infer.like("OutGoodSteps", "InGoodSteps")
    infer.like("OutBadSteps", "InBadSteps")


@register(
    "update_loss_scaling",
    inputs=("X*", "FoundInfinite", "PrevLossScaling", "InGoodSteps", "InBadSteps"),
    outputs=("Out*", "LossScaling", "OutGoodSteps", "OutBadSteps"),
    attrs={"incr_every_n_steps": 1000, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0, "decr_ratio": 0.8},
    infer=_infer_update,
    rebinds=True,
    takes_rows=True,
)
def _update_loss_scaling(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Gradients become 0 where one of them was NaN or Inf; the factor shrinks after some such steps, else it grows."""
    every, after = op.attr("incr_every_n_steps"), op.attr("decr_every_n_nan_or_inf")
    more, less = op.attr("incr_ratio"), op.attr("decr_ratio")

    def run(*values: Any) -> Any:
        *gradients, found, factor, good, bad = values
        good, bad = torch.where(found, 0, good + 1), torch.where(found, bad + 1, 0)
        larger, smaller = factor * more, torch.clamp(factor * less, min=SMALLEST)
        larger = torch.where(torch.isfinite(larger), larger, factor)
        factor = torch.where(good >= every, larger, torch.where(bad >= after, smaller, factor))
        good = torch.where(good >= every, 0, good).to(torch.int32)
        bad = torch.where(bad >= after, 0, bad).to(torch.int32)
        return (*[_cleared(one, found) for one in gradients], factor, good, bad)

    return run


def _cleared(gradient: Any, found: torch.Tensor) -> Any:
    if isinstance(gradient, Rows):
        return Rows(gradient.index, torch.where(found, 0, gradient.values), gradient.height)
    return torch.where(found, 0, gradient)
