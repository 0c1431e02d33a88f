"""Arguments of optimizers: what a learning rate, a decay and a list of parameters mean, as torch's groups.

A parameter may have been made with a say of its own, by ParamAttr: `learning_rate` is a factor on the optimizer's rate,
`regularizer` is used in place of the optimizer's decay. Parameters of one say are a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.imperative.optimizer.lr import LRScheduler
from fleet_programs.backward.clip import GradientClip
from fleet_programs.program.variable import Penalty

Rate = float | LRScheduler
Parameters = Iterable[Any] | None
Decay = float | Penalty | None
Clip = GradientClip | None
Groups = list[dict[str, Any]]


def rate_of(learning_rate: Rate) -> float:
    """The learning rate to begin with."""
    if isinstance(learning_rate, LRScheduler):
        return learning_rate()
    if isinstance(learning_rate, bool) or not isinstance(learning_rate, int | float):
        raise UsageTypeError(
            f"learning_rate must be a number or one of optimizer.lr, got {type(learning_rate).__name__}"
        )
    if not learning_rate >= 0:
        raise UsageError(f"learning_rate must be >= 0, got {learning_rate}")
    return float(learning_rate)


def groups_of(parameters: Parameters, weight_decay: Decay = None) -> Groups:
    """Groups of what to train, for optimizers whose `weight_decay` is added to the gradient.

    Dicts among the parameters are groups with settings of their own, `learning_rate` being a factor. A group's
    `penalty` is a kind and a number: what the optimizer adds to gradients itself, since torch's decay is L2 alone.
    """
    made = []
    for group, one, factor, own in _each(parameters):
        decay = penalty_of(group.get("weight_decay", weight_decay)) if own is None else own
        is_l1 = decay.kind == "l1" and decay.coeff > 0
        settings = {"weight_decay": 0.0 if is_l1 else decay.coeff, "penalty": ["l1", decay.coeff] if is_l1 else None}
        made.append((group, one, factor, settings))
    return _together(made)


def decoupled_groups_of(
    parameters: Parameters, weight_decay: Decay, wants_decay: Callable[[str], bool] | None = None
) -> Groups:
    """The same for optimizers whose `weight_decay` is apart from the gradient; `wants_decay` is asked by name.

    A parameter's own regularizer goes to the gradient there too, beside the decay.
    """
    made = []
    for place, (group, one, factor, own) in enumerate(_each(parameters)):
        decay = penalty_of(group.get("weight_decay", weight_decay))
        if decay.kind != "l2":
            raise UsageError("weight_decay must be a number or L2Decay here: it is not part of the gradient")
        is_wanted = wants_decay is None or wants_decay(getattr(one, "name", None) or str(place))
        penalty = None if own is None or own.coeff == 0 else [own.kind, own.coeff]
        made.append((group, one, factor, {"weight_decay": decay.coeff if is_wanted else 0.0, "penalty": penalty}))
    return _together(made)


def penalty_of(weight_decay: Decay) -> Penalty:
    """A decay given as a number, as L1Decay or L2Decay, or not at all."""
    if weight_decay is None:
        return Penalty("l2", 0.0)
    if isinstance(weight_decay, Penalty):
        return weight_decay
    if isinstance(weight_decay, bool) or not isinstance(weight_decay, int | float):
        raise UsageTypeError(f"weight_decay must be a number, L1Decay or L2Decay, got {type(weight_decay).__name__}")
    return Penalty("l2", float(weight_decay))


def _each(parameters: Parameters) -> list[tuple[dict[str, Any], Any, float, Penalty | None]]:
    """Every parameter with the group it was given in, its factor on the rate, and its own regularizer."""
    found = [] if parameters is None else list(parameters)
    if not found:
        raise UsageError("parameters must be what to train, for example layer.parameters(); got nothing")
    plain: dict[str, Any] = {}
    each = []
    for given in found:
        group = given if isinstance(given, dict) else plain
        several = given["params"] if isinstance(given, dict) else [given]
        for one in [several] if hasattr(several, "requires_grad") else several:
            factor = getattr(one, "optimize_attr", {}).get("learning_rate", 1.0)
            each.append(
                (group, one, factor * float(group.get("learning_rate", 1.0)), getattr(one, "regularizer", None))
            )
    return each


def _together(each: list[tuple[dict[str, Any], Any, float, dict[str, Any]]]) -> Groups:
    """A group for all that share settings, in the order in which these come; the dicts given stay as they are."""
    groups: dict[str, dict[str, Any]] = {}
    for group, one, factor, settings in each:
        key = repr((id(group), factor, settings))
        if key not in groups:
            groups[key] = {**group, **settings, "params": [], "learning_rate": factor}
        groups[key]["params"].append(one)
    return list(groups.values())
