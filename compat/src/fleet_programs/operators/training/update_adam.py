"""Updates with a mean of gradients and of their squares: Adam, AdamW, Adamax and LAMB.

`Step` counts updates exactly, in float32, so that the bias corrections of means that began at 0 never drift. Where it
counts for each row, so do the corrections.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fleet_programs.definition.operator import Operator
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.training.update import (
    STEP,
    Rate,
    Rule,
    counts_rows,
    is_sparse,
    register_update,
    subtract_,
    subtract_ratio_,
)
from fleet_programs.operators.training.update_lars import norm_of

_BETAS = {"beta1": 0.9, "beta2": 0.999}
ADAM = {**_BETAS, "epsilon": 1e-8}
ADAMW = {**ADAM, "coeff": 0.01}


@register_update("adam", ("Moment1", "Moment2", STEP), ADAM)
def _adam(op: Operator, lowering: Lowering) -> Rule:
    return _by_row(op, lowering, 0.0) if counts_rows(op, lowering) else _fused(op, torch._fused_adam_, 0.0)


@register_update("adamw", ("Moment1", "Moment2", STEP), ADAMW)
def _adamw(op: Operator, lowering: Lowering) -> Rule:
    decay = op.attr("coeff")
    return _by_row(op, lowering, decay) if counts_rows(op, lowering) else _fused(op, torch._fused_adamw_, decay)


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


def _by_row(op: Operator, lowering: Lowering, weight_decay: float) -> Rule:
    """Every row by its own count, which torch's call does not know."""
    moved = _moments(op, lowering)

    def update(param: Tensor, grad: Tensor, rate: Rate, mean: Tensor, square: Tensor, step: Tensor) -> None:
        root, share = moved(grad, mean, square, step)
        if weight_decay:
            param.mul_(_plain(1 - rate * weight_decay, param))
        subtract_ratio_(param, mean, root, rate / share)

    return update


def _moments(op: Operator, lowering: Lowering) -> Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Rate]]:
    """Moves mean and square on by a gradient; what to divide by, and which part of the mean is there by now."""
    beta1, beta2, epsilon = op.attr("beta1"), op.attr("beta2"), op.attr("epsilon")
    counted = _counter(op, lowering)

    def moved(grad: Tensor, mean: Tensor, square: Tensor, step: Tensor) -> tuple[Tensor, Rate]:
        count = counted(step)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = square.sqrt().mul_(_plain((1 - beta2**count) ** -0.5, grad)).add_(epsilon)
        return root, 1 - beta1**count

    return moved


@register_update("adamax", ("Moment", "InfNorm", STEP), {**_BETAS, "epsilon": 1e-8})
def _adamax(op: Operator, lowering: Lowering) -> Rule:
    beta1, beta2, epsilon = op.attr("beta1"), op.attr("beta2"), op.attr("epsilon")
    counted = _counter(op, lowering)

    def update(param: Tensor, grad: Tensor, rate: Rate, mean: Tensor, size: Tensor, step: Tensor) -> None:
        count = counted(step)
        mean.lerp_(grad, 1 - beta1)
        torch.maximum(size.mul_(beta2), grad.abs().add_(epsilon), out=size)
        subtract_ratio_(param, mean, size, rate / (1 - beta1**count))

    return update


@register_update("lamb", ("Moment1", "Moment2", STEP), {**_BETAS, "epsilon": 1e-6, "weight_decay": 0.01})
def _lamb(op: Operator, lowering: Lowering) -> Rule:
    """A gradient of rows is scaled row by row, as tables on servers do."""
    moved, norm, decay = _moments(op, lowering), norm_of(is_sparse(op, lowering)), op.attr("weight_decay")

    def update(param: Tensor, grad: Tensor, rate: Rate, mean: Tensor, square: Tensor, step: Tensor) -> None:
        root, share = moved(grad, mean, square, step)
        direction = (mean * _plain(1 / share, grad)).div_(root).add_(param, alpha=decay)
        weights, size = norm(param), norm(direction)
        trust = torch.where((weights > 0) & (size > 0), weights / size, 1.0)
        subtract_(param, direction.mul_(trust.to(grad.dtype)), rate)

    return update


def _counter(op: Operator, lowering: Lowering) -> Callable[[Tensor], Rate]:
    """Counts an update. One count is a number on the CPU; others are in double: 1 - beta2 is lost in float32."""
    if counts_rows(op, lowering):
        column = (-1, *[1] * (len(lowering.shape(op.input("Param")[0])) - 1))
        return lambda step: step.add_(1).double().view(column)
    if lowering.device.type == "cpu":
        return lambda step: float(step.add_(1).item())
    return lambda step: step.add_(1).double()


def _plain(factor: Rate, like: Tensor) -> Rate:
    return factor if isinstance(factor, float) else factor.to(like.dtype)
