"""Updates of many parameters at once, which only the Executor makes; see `executor.fuse.updates`.

Each does to every parameter what the update of its name does to one, by torch's calls for lists of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.training.update import MOMENTUM, PENALTY, STEP, Rate
from fleet_programs.operators.training.update_adam import ADAM, ADAMW

Tensors = tuple[Tensor, ...]
Rule = Callable[..., None]
"""One update of all, in place: `rule(params, grads, rate, *accumulators)`, each a list but the rate."""


def _register(
    type: str, state: tuple[str, ...], attrs: Mapping[str, Any]
) -> Callable[[Callable[[Operator], Rule]], Callable[[Operator], Rule]]:
    """Define the update of many; every slot but LearningRate has as many variables as there are parameters."""

    def add(make: Callable[[Operator], Rule]) -> Callable[[Operator], Rule]:
        @register(
            f"fused_{type}",
            inputs=("Param*", "Grad*", "LearningRate", *(f"{slot}*" for slot in state)),
            outputs=("ParamOut*", *(f"{slot}Out*" for slot in state)),
            attrs={**attrs, **PENALTY},
        )
        def _(op: Operator, lowering: Lowering) -> Kernel:
            rule, count = _with_penalty(make(op), op), len(op.input("Param"))
            is_number = lowering.device.type == "cpu"
            begins = [2 * count + 1 + number * count for number in range(len(state))]

            def update(*tensors: Tensor) -> None:
                rate = tensors[2 * count]
                rule(
                    tensors[:count],
                    tensors[count : 2 * count],
                    rate.item() if is_number else rate,
                    *(tensors[begin : begin + count] for begin in begins),
                )

            return update

        return make

    return add


def _with_penalty(rule: Rule, op: Operator) -> Rule:
    method, coeff = op.attr("regularization_method"), op.attr("regularization_coeff")
    if not method or not coeff:
        return rule

    def update(params: Tensors, grads: Tensors, rate: Rate, *state: Tensors) -> None:
        pull = params if method == "l2_decay" else torch._foreach_sign(params)
        rule(params, torch._foreach_add(grads, pull, alpha=coeff), rate, *state)

    return update


def _subtract_(params: Tensors, changes: Tensors, rate: Rate) -> None:
    """params -= rate * changes"""
    if isinstance(rate, float):
        torch._foreach_add_(params, changes, alpha=-rate)
    else:
        torch._foreach_sub_(params, torch._foreach_mul(changes, rate.to(changes[0].dtype).squeeze()))


@_register("sgd", (), {})
def _sgd(op: Operator) -> Rule:  # noqa: ARG001
    return _subtract_


@_register("momentum", ("Velocity",), MOMENTUM)
def _momentum(op: Operator) -> Rule:
    momentum, is_nesterov = op.attr("mu"), op.attr("use_nesterov")

    def update(params: Tensors, grads: Tensors, rate: Rate, velocities: Tensors) -> None:
        torch._foreach_mul_(velocities, momentum)
        torch._foreach_add_(velocities, grads)
        _subtract_(params, torch._foreach_add(grads, velocities, alpha=momentum) if is_nesterov else velocities, rate)

    return update


@_register("adam", ("Moment1", "Moment2", STEP), ADAM)
def _adam(op: Operator) -> Rule:
    return _by_torch(op, torch._fused_adam_, 0.0)


@_register("adamw", ("Moment1", "Moment2", STEP), ADAMW)
def _adamw(op: Operator) -> Rule:
    return _by_torch(op, torch._fused_adamw_, op.attr("coeff"))


def _by_torch(op: Operator, adam: Callable[..., None], weight_decay: float) -> Rule:
    given = {"beta1": op.attr("beta1"), "beta2": op.attr("beta2"), "eps": op.attr("epsilon")}
    given |= {"weight_decay": weight_decay, "amsgrad": False, "maximize": False}

    def update(params: Tensors, grads: Tensors, rate: Rate, means: Tensors, squares: Tensors, steps: Tensors) -> None:
        torch._foreach_add_(steps, 1)
        kept = [*params, *means, *squares]
        plain = [one.contiguous() for one in kept]  # torch takes memory as it lies
        count = len(params)
        adam(
            plain[:count],
            [grad.contiguous() for grad in grads],
            plain[count : 2 * count],
            plain[2 * count :],
            [],
            steps,
            lr=rate,
            **given,
        )
        for one, copy in zip(kept, plain, strict=True):
            if one is not copy:
                one.copy_(copy)

    return update
