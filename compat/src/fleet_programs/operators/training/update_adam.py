"""Adam and AdamW: one call of torch, or the formula of servers where `Step` counts for each row, unknown to torch.

`Step` counts updates exactly, in float32, so that the bias corrections of means that began at 0 never drift.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fleet_programs.definition.operator import Operator
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.training.update import STEP, Rate, Rule, counts_rows, register_update
from fleet_programs.operators.training.update_by_rule import BETAS, by_rule

ADAM = {**BETAS, "epsilon": 1e-8}
ADAMW = {**ADAM, "coeff": 0.01}


@register_update("adam", ("Moment1", "Moment2", STEP), ADAM)
def _adam(op: Operator, lowering: Lowering) -> Rule:
    return by_rule(op, lowering, "adam", ADAM) if counts_rows(op, lowering) else _fused(op, torch._fused_adam_, 0.0)


@register_update("adamw", ("Moment1", "Moment2", STEP), ADAMW)
def _adamw(op: Operator, lowering: Lowering) -> Rule:
    if counts_rows(op, lowering):
        return by_rule(op, lowering, "adamw", ADAMW)
    return _fused(op, torch._fused_adamw_, op.attr("coeff"))


def _fused(op: Operator, adam: Callable[..., None], weight_decay: float) -> Rule:
    """One call of torch, which takes memory as it lies: everything has to be contiguous."""
    given = {"beta1": op.attr("beta1"), "beta2": op.attr("beta2"), "eps": op.attr("epsilon")}
    given |= {"weight_decay": weight_decay, "amsgrad": False, "maximize": False}

    def update(param: Tensor, grad: Tensor, rate: Rate, mean: Tensor, square: Tensor, step: Tensor) -> None:
        step.add_(1)
        if param.is_contiguous() and mean.is_contiguous() and square.is_contiguous():
            adam([param], [grad.contiguous()], [mean], [square], [], [step], lr=rate, **given)
            return
        parts = [one.contiguous() for one in (param, mean, square)]
        adam([parts[0]], [grad.contiguous()], [parts[1]], [parts[2]], [], [step], lr=rate, **given)
        for one, part in zip((param, mean, square), parts, strict=True):
            one.copy_(part)

    return update
