"""The update of Adadelta, whose steps have the size of earlier steps: the learning rate is no part of it.

PaddlePaddle up to 2.2 reads no rate either; torch's Adadelta is the same at lr=1.
"""

from __future__ import annotations

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.training.update import Rate, Rule, register_update


@register_update("adadelta", ("AvgSquaredGrad", "AvgSquaredUpdate"), {"rho": 0.95, "epsilon": 1e-6})
def _adadelta(op: Operator, lowering: Lowering) -> Rule:  # noqa: ARG001
    rho, epsilon = op.attr("rho"), op.attr("epsilon")

    def update(
        param: torch.Tensor,
        grad: torch.Tensor,
        rate: Rate,  # noqa: ARG001
        squares: torch.Tensor,
        steps: torch.Tensor,
    ) -> None:
        root = squares.mul_(rho).addcmul_(grad, grad, value=1 - rho).add(epsilon).sqrt_()
        step = steps.add(epsilon).sqrt_().div_(root).mul_(grad)
        steps.mul_(rho).addcmul_(step, step, value=1 - rho)
        param.sub_(step)

    return update
