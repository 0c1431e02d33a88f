"""Dropout: values set to zero at random while training."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering

UPSCALE, DOWNGRADE = "upscale_in_train", "downgrade_in_infer"


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    share, how = infer.attr("dropout_prob"), infer.attr("dropout_implementation")
    if not 0 <= share <= 1:
        raise infer.fail(f"dropout_prob must be from 0 to 1, got {share}")
    if how not in (UPSCALE, DOWNGRADE):
        raise infer.fail(f"dropout_implementation must be {DOWNGRADE} or {UPSCALE}, got {how!r}")
    infer.like("Out", "X")
    infer.set("Mask", infer.shape("X"), "uint8")


@register(
    "dropout",
    inputs=("X",),
    outputs=("Out", "Mask"),
    attrs={"dropout_prob": 0.5, "is_test": False, "fix_seed": False, "seed": 0, "dropout_implementation": DOWNGRADE},
    infer=_infer,
    grad=Grad(needs=("Mask",), outs=("Out",)),
    is_random=True,
)
def _dropout(op: Operator, lowering: Lowering) -> Kernel:
    kept, factor = 1.0 - float(op.attr("dropout_prob")), _factor(op)
    if op.attr("is_test"):
        # Nobody reads this mask; it takes no memory.
        return lambda x: (x * factor, torch.ones((), dtype=torch.uint8, device=x.device).expand_as(x))
    fixed = torch.Generator(lowering.device) if op.attr("fix_seed") else None
    seed, generator = op.attr("seed"), fixed or lowering.generator

    def dropout(x: torch.Tensor) -> Any:
        if fixed is not None:
            fixed.manual_seed(seed)
        mask = torch.empty(x.shape, dtype=torch.uint8, device=x.device).bernoulli_(kept, generator=generator)
        out = x * mask
        return (out if factor == 1.0 else out.mul_(factor)), mask

    return dropout


@register_grad("dropout", as_autograd=True)
def _dropout_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    factor = _factor(op)
    if op.attr("is_test"):
        return lambda mask, grad: grad * factor  # noqa: ARG005
    if factor == 1.0:
        return lambda mask, grad: grad * mask
    return lambda mask, grad: (grad * mask).mul_(factor)


def _factor(op: Operator) -> float:
    """What values that stay are multiplied by."""
    kept = 1.0 - float(op.attr("dropout_prob"))
    if op.attr("dropout_implementation") == UPSCALE:
        return 1.0 if op.attr("is_test") or kept == 0 else 1.0 / kept
    return kept if op.attr("is_test") else 1.0
