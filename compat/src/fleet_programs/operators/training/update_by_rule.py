"""Updates by the formulas of servers (`fleet.ps.job.rule_table`), under the names and defaults of PaddlePaddle.

Adamax, LAMB, LARS, Adagrad, decayed Adagrad, RMSProp and FTRL. Where `Step` counts for each row, so do bias
corrections; norms are those of each row where a gradient has rows, as on tables of servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from fleet.ps.job.rule_table import TensorRule
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.training.update import STEP, Rate, Rule, counts_rows, is_sparse, register_update

BETAS = {"beta1": 0.9, "beta2": 0.999}
_CONSTANTS = {
    "decay": "alpha",
    "epsilon": "eps",
    "mu": "momentum",
    "lars_coeff": "coeff",
    "lars_weight_decay": "weight_decay",
    "coeff": "weight_decay",
}
"""Attributes whose names are not those of the rule's constants."""
_START = {"initial_accumulator_value": 0.0}
"""What the startup program fills the sum of squares with; for those who keep it elsewhere."""


def by_rule(op: Operator, lowering: Lowering, rule: str, attrs: Mapping[str, Any]) -> Rule:
    """The update of an operator by a rule of the table, whose arrays its slots have in their order."""
    own = TensorRule(rule, {_CONSTANTS.get(attr, attr): float(op.attr(attr)) for attr in attrs})
    axis, has_step = int(is_sparse(op, lowering)), STEP in op.inputs
    column = (-1, *[1] * (len(lowering.shape(op.input("Param")[0])) - 1))
    is_by_row = has_step and counts_rows(op, lowering)
    is_on_cpu = lowering.device.type == "cpu"

    def update(param: Tensor, grad: Tensor, rate: Rate, *state: Tensor) -> None:
        if not has_step:
            own.apply(param, state, None, grad, rate, axis)
            return
        *arrays, step = state
        count = step.view(column) if is_by_row else step.numpy() if is_on_cpu else step
        own.apply(param, arrays, count, grad, rate, axis)

    return update


def _register(
    type: str,
    rule: str,
    state: tuple[str, ...],
    attrs: Mapping[str, Any],
    check: Callable[[Infer], None] | None = None,
) -> None:
    @register_update(type, state, attrs, check=check)
    def _(op: Operator, lowering: Lowering) -> Rule:
        return by_rule(op, lowering, rule, attrs)


def _check_rmsprop(infer: Infer) -> None:
    if infer.has("Moment") != (infer.attr("momentum") > 0) or infer.has("MeanGrad") != infer.attr("centered"):
        raise infer.fail("Moment goes with a momentum above 0, MeanGrad with centered=True; give or leave out both")


_FTRL = {"l1": 0.0, "l2": 0.0, "lr_power": -0.5, **_START}
_LARS = {"mu": 0.9, "lars_coeff": 0.001, "lars_weight_decay": 0.0005, "epsilon": 0.0}
_RMSPROP = {"decay": 0.95, "epsilon": 1e-6, "momentum": 0.0, "centered": False}

_register("adagrad", "adagrad", ("Moment",), {"epsilon": 1e-6, **_START})
_register("adamax", "adamax", ("Moment", "InfNorm", STEP), {**BETAS, "epsilon": 1e-8})
_register("decayed_adagrad", "rmsprop", ("Moment",), {"decay": 0.95, "epsilon": 1e-6})
_register("ftrl", "ftrl", ("LinearAccumulator", "SquaredAccumulator"), _FTRL)
_register("lamb", "lamb", ("Moment1", "Moment2", STEP), {**BETAS, "epsilon": 1e-6, "weight_decay": 0.01})
_register("lars_momentum", "lars", ("Velocity",), _LARS)
_register("rmsprop", "rmsprop", ("MeanSquare", "Moment?", "MeanGrad?"), _RMSPROP, _check_rmsprop)
