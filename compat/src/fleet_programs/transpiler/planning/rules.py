"""An update operator as the rule of a server: one line for each optimizer, their arguments are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.errors import NotSupportedError, UsageError
from fleet.ps.job import rules
from fleet.ps.job.named_spec import RuleSpec
from fleet_programs.definition.operator import Operator
from fleet_programs.program.block import Block

Attr = Callable[[str], Any]


def _betas(attr: Attr) -> tuple[float, float]:
    return attr("beta1"), attr("beta2")


_RULES: dict[str, Callable[[Attr, float], RuleSpec]] = {
    "sgd": lambda _, decay: rules.SGD(0.0, weight_decay=decay),
    # Without a momentum, Nesterov's is plain descent as well.
    "momentum": lambda attr, decay: rules.SGD(
        0.0, attr("mu"), weight_decay=decay, nesterov=attr("use_nesterov") and attr("mu") != 0
    ),
    "adagrad": lambda attr, decay: rules.Adagrad(
        0.0,
        weight_decay=decay,
        initial_accumulator_value=attr("initial_accumulator_value"),
        eps=attr("epsilon"),
    ),
    "decayed_adagrad": lambda attr, decay: rules.DecayedAdagrad(0.0, attr("decay"), attr("epsilon"), decay),
    "adam": lambda attr, decay: rules.Adam(0.0, _betas(attr), attr("epsilon"), decay),
    "adamw": lambda attr, _: rules.AdamW(0.0, _betas(attr), attr("epsilon"), attr("coeff")),
    "adamax": lambda attr, decay: rules.Adamax(0.0, _betas(attr), attr("epsilon"), decay),
    "rmsprop": lambda attr, decay: rules.RMSprop(
        0.0, attr("decay"), attr("epsilon"), decay, attr("momentum"), attr("centered")
    ),
    "ftrl": lambda attr, decay: rules.Ftrl(
        0.0, attr("l1"), attr("l2"), attr("lr_power"), attr("initial_accumulator_value"), decay
    ),
    "lars_momentum": lambda attr, _: rules.Lars(
        0.0, attr("mu"), attr("lars_coeff"), attr("lars_weight_decay"), attr("epsilon")
    ),
    "lamb": lambda attr, _: rules.Lamb(0.0, _betas(attr), attr("epsilon"), attr("weight_decay")),
}
_OWN_DECAY = ("adamw", "lars_momentum", "lamb")
WHOLE = ("lars", "lamb")
"""Rules that measure a whole parameter: it is never cut, and has a group to itself."""


def rule_of(op: Operator, block: Block, *, is_applied: bool = True) -> RuleSpec:
    """The rule that does on a server what an update operator of a block does in a program.

    Its rate is 0: every push brings the rate of its step, be it a constant or a schedule's. Where the operator stays in
    the trainer's program the rule is not applied, and need not know every decay.
    """
    parameter = block.var(op.output("ParamOut")[0])
    make = _RULES.get(op.type)
    if make is None:
        raise NotSupportedError(
            f"parameter {parameter.name!r} is trained by {op.type}, which servers do not know; use one of "
            f"{', '.join(_RULES)}"
        )
    if parameter.dtype != "float32":
        raise NotSupportedError(f"parameter {parameter.name!r} is {parameter.dtype}; servers train float32")
    return make(op.attr, _decay(op, parameter.name, is_applied))


def _decay(op: Operator, name: str, is_applied: bool) -> float:
    method, coeff = op.attr("regularization_method"), float(op.attr("regularization_coeff"))
    if not method or not coeff:
        return 0.0
    if not is_applied and (method == "l1_decay" or op.type in _OWN_DECAY):
        return 0.0
    if method == "l1_decay":
        raise UsageError(
            f"parameter {name!r} has an L1Decay, which servers do not know; use L2Decay or Ftrl(l1=...), or train "
            'without servers (config.mode = "nccl2")'
        )
    if op.type in _OWN_DECAY:
        raise UsageError(
            f"parameter {name!r} has an L2Decay besides the weight decay of {op.type}; servers know one of them: give "
            "the optimizer's own"
        )
    return coeff
