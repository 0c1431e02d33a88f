"""Updates that divide by the size of past gradients: Adagrad, decayed Adagrad, RMSProp and FTRL."""

from __future__ import annotations

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.training.update import Rate, Rule, register_update, subtract_, subtract_ratio_

TINY = torch.finfo(torch.float32).tiny
"""0 / TINY is the 0 that 0 / 0 should be."""

_START = {"initial_accumulator_value": 0.0}
"""What the startup program fills the sum of squares with; for those who keep it elsewhere."""


@register_update("adagrad", ("Moment",), {"epsilon": 1e-6, **_START})
def _adagrad(op: Operator, lowering: Lowering) -> Rule:  # noqa: ARG001
    epsilon = op.attr("epsilon")

    def update(param: torch.Tensor, grad: torch.Tensor, rate: Rate, moment: torch.Tensor) -> None:
        root = moment.addcmul_(grad, grad).sqrt().add_(epsilon)
        subtract_ratio_(param, grad, root, rate)

    return update


@register_update("decayed_adagrad", ("Moment",), {"decay": 0.95, "epsilon": 1e-6})
def _decayed_adagrad(op: Operator, lowering: Lowering) -> Rule:  # noqa: ARG001
    decay, epsilon = op.attr("decay"), op.attr("epsilon")

    def update(param: torch.Tensor, grad: torch.Tensor, rate: Rate, moment: torch.Tensor) -> None:
        root = moment.mul_(decay).addcmul_(grad, grad, value=1 - decay).sqrt().add_(epsilon)
        subtract_ratio_(param, grad, root, rate)

    return update


def _check_rmsprop(infer: Infer) -> None:
    if infer.has("Moment") != (infer.attr("momentum") > 0) or infer.has("MeanGrad") != infer.attr("centered"):
        raise infer.fail("Moment goes with a momentum above 0, MeanGrad with centered=True; give or leave out both")


@register_update(
    "rmsprop",
    ("MeanSquare", "Moment?", "MeanGrad?"),
    {"decay": 0.95, "epsilon": 1e-6, "momentum": 0.0, "centered": False},
    check=_check_rmsprop,
)
def _rmsprop(op: Operator, lowering: Lowering) -> Rule:  # noqa: ARG001
    decay, epsilon, momentum = op.attr("decay"), op.attr("epsilon"), op.attr("momentum")
    has_momentum, is_centered = bool(op.input("Moment")), bool(op.input("MeanGrad"))

    def update(param: torch.Tensor, grad: torch.Tensor, rate: Rate, square: torch.Tensor, *more: torch.Tensor) -> None:
        square.mul_(decay).addcmul_(grad, grad, value=1 - decay)
        if is_centered:
            mean = more[-1].lerp_(grad, 1 - decay)
            root = square.addcmul(mean, mean, value=-1).clamp_(min=0).sqrt_().add_(epsilon)  # rounding may go below 0
        else:
            root = square.sqrt().add_(epsilon)
        if has_momentum:
            subtract_(param, more[0].mul_(momentum).addcdiv_(grad, root), rate)
        else:
            subtract_ratio_(param, grad, root, rate)

    return update


@register_update(
    "ftrl", ("SquaredAccumulator", "LinearAccumulator"), {"l1": 0.0, "l2": 0.0, "lr_power": -0.5, **_START}
)
def _ftrl(op: Operator, lowering: Lowering) -> Rule:  # noqa: ARG001
    """FTRL-Proximal; at a rate of 0, by which it would divide, nothing changes."""
    l1, l2, power = op.attr("l1"), op.attr("l2"), -op.attr("lr_power")

    def changed(
        param: torch.Tensor, grad: torch.Tensor, inverse: Rate, n: torch.Tensor, z: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        after = n.addcmul(grad, grad)
        if power == 0.5:
            root = after.sqrt()
            growth = (after - n).div_(n.sqrt().add_(root).add_(TINY))  # keeps the digits that a difference would lose
        else:
            root = after.pow(power)
            growth = root - n.pow(power)
        linear = z + grad - growth.mul_(inverse).mul_(param)
        shrunk = linear.clamp(-l1, l1).sub_(linear)
        return shrunk.div_(root.mul_(inverse).add_(2 * l2 + TINY)), after, linear

    def update(param: torch.Tensor, grad: torch.Tensor, rate: Rate, n: torch.Tensor, z: torch.Tensor) -> None:
        if isinstance(rate, float):
            if rate >= TINY:
                for one, new in zip((param, n, z), changed(param, grad, 1 / rate, n, z), strict=True):
                    one.copy_(new)
            return
        is_moving = rate >= TINY
        inverse = torch.where(is_moving, rate, 1.0).reciprocal().to(param.dtype)
        for one, new in zip((param, n, z), changed(param, grad, inverse, n, z), strict=True):
            torch.where(is_moving, new, one, out=one)

    return update
