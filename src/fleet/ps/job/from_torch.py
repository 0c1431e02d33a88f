"""The rule that a torch optimizer stands for: what servers do in place of its `step()`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim import SGD, Adagrad, Adam, Adamax, AdamW, Optimizer, RMSprop

from fleet.errors import UsageError
from fleet.json_form import shown
from fleet.optim.common import kind_of
from fleet.ps.job import rules
from fleet.ps.job.named_spec import RuleSpec

Named = tuple[str, torch.Tensor, int]  # name, parameter, group

# They change how torch computes, not what.
HINTS = frozenset({"foreach", "fused"})
# They ask for something a server cannot give: a step inside a CUDA graph or inside autograd.
REFUSED = ("capturable", "differentiable")

Group = dict[str, Any]


def _sgd(group: Group) -> RuleSpec:
    momentum = _number(group["momentum"])
    return rules.SGD(
        _number(group["lr"]),
        momentum,
        _number(group["dampening"]) if momentum else 0.0,  # torch ignores it without a momentum
        _number(group["weight_decay"]),
        group["nesterov"],
        maximize=group["maximize"],
    )


def _adagrad(group: Group) -> RuleSpec:
    names = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    return rules.Adagrad(*(_number(group[name]) for name in names), maximize=group["maximize"])


def _adam(group: Group) -> RuleSpec:
    decoupled = group.get("decoupled_weight_decay", False)
    return rules.Adam(**_adam_arguments(group, "amsgrad"), decoupled_weight_decay=decoupled)


def _adamw(group: Group) -> RuleSpec:
    return rules.AdamW(**_adam_arguments(group, "amsgrad"))


def _adamax(group: Group) -> RuleSpec:
    return rules.Adamax(**_adam_arguments(group))


def _adam_arguments(group: Group, *more: str) -> dict[str, Any]:
    numbers = {name: _number(group[name]) for name in ("lr", "eps", "weight_decay")}
    switches = {name: group[name] for name in ("maximize", *more)}
    return {**numbers, **switches, "betas": tuple(map(_number, group["betas"]))}


def _rmsprop(group: Group) -> RuleSpec:
    names = ("lr", "alpha", "eps", "weight_decay", "momentum")
    numbers = {name: _number(group[name]) for name in names}
    return rules.RMSprop(**numbers, centered=group["centered"], maximize=group["maximize"])


_KNOWN: dict[type[Optimizer], tuple[Callable[[Group], RuleSpec], frozenset[str]]] = {
    SGD: (_sgd, frozenset({"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"})),
    Adagrad: (
        _adagrad,
        frozenset({"lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value", "maximize"}),
    ),
    Adam: (
        _adam,
        frozenset({"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay"}),
    ),
    AdamW: (
        _adamw,
        frozenset({"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay"}),
    ),
    Adamax: (_adamax, frozenset({"lr", "betas", "eps", "weight_decay", "maximize"})),
    RMSprop: (
        _rmsprop,
        frozenset({"lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize"}),
    ),
}


def rule_of(optimizer: Optimizer, group: Group) -> RuleSpec:
    """The rule of one of the optimizer's parameter groups, with all its arguments.

    Only torch's own classes: a subclass may step in a way of its own. Keys of a group that are no arguments of the
    class, such as those that schedulers keep there, mean nothing to torch and nothing here.
    """
    kind = kind_of(optimizer)
    name = kind.__name__
    if getattr(optimizer, "grad_clip", None) is not None:
        raise UsageError(
            f"optimizer {name}: grad_clip needs gradients of all workers, which servers have; leave it out"
        )
    if kind not in _KNOWN:
        names = ", ".join(known.__name__ for known in _KNOWN)
        raise UsageError(f"optimizer {name} cannot run on the servers; use one of torch.optim's {names}")
    rule, arguments = _KNOWN[kind]
    for hint in REFUSED:
        if group.get(hint):
            raise UsageError(f"optimizer {name}: {hint} = True has no meaning on the servers; leave it False")
    for argument in optimizer.defaults:
        if argument not in arguments and argument not in HINTS and argument not in REFUSED and group.get(argument):
            value = shown(group[argument])
            raise UsageError(
                f"optimizer {name}: Fleet does not know its argument {argument}, got {value}; leave it out"
            )
    try:
        return rule(group)
    except UsageError as error:
        raise UsageError(f"optimizer {name}: {error}") from None


def check_unchanged(optimizer: Optimizer, declared: Sequence[RuleSpec]) -> None:
    """UsageError if a group no longer stands for its declared rule, the learning rate aside.

    The servers learn each step's learning rate and nothing else: a schedule that moves a momentum cannot work.
    """
    if len(optimizer.param_groups) != len(declared):
        raise UsageError(
            f"optimizer {type(optimizer).__name__} has {len(optimizer.param_groups)} parameter groups now, but had "
            f"{len(declared)} in fleet.init_worker(); call fleet.stop_worker() and fleet.init_worker() again"
        )
    for index, (group, rule) in enumerate(zip(optimizer.param_groups, declared, strict=True)):
        now = rule_of(optimizer, group)
        before, after = dict(rule.args), dict(now.args)
        changed = [name for name in before if name != "lr" and before[name] != after.get(name)]
        if now.name == rule.name and not changed:
            continue
        what = f"{changed[0]} from {before[changed[0]]:g} to {after[changed[0]]:g}" if now.name == rule.name else "rule"
        raise UsageError(
            f"parameter group {index} of optimizer {type(optimizer).__name__} changed its {what} after training began; "
            "the servers follow changes of lr only"
        )


def check_fresh(optimizer: Optimizer) -> None:
    """UsageError if the optimizer has made steps: its state would have to be on the servers."""
    for state in optimizer.state.values():
        # Adagrad has its state from the beginning, with a step count of 0.
        steps = state.get("step")
        made = _number(steps) > 0 if steps is not None else any(value is not None for value in state.values())
        if made:
            raise UsageError(
                f"optimizer {type(optimizer).__name__} has already made steps, and the servers start without its "
                "state; give a new optimizer and load a saved model with fleet.load_model"
            )


def _number(value: Any) -> float:
    """torch takes a tensor of one element where it takes a number."""
    return float(value.item() if isinstance(value, torch.Tensor) else value)


def distinct_parameters(parameters: Iterable[Named]) -> list[Named]:
    """The parameters that need a place on servers, in order; each is (name, parameter, group).

    A parameter that comes twice, as tied weights do, counts under its first name; one without elements is left out.
    UsageError unless they are float32 and lie on one device.
    """
    owners: dict[int, Named] = {}
    for name, parameter, group in parameters:
        _check(name, parameter)
        if parameter.numel() == 0:
            continue
        owner = owners.setdefault(parameter.data_ptr(), (name, parameter, group))
        if owner[1] is not parameter:
            raise UsageError(
                f"parameters {owner[0]!r} and {name!r} are two objects over the same memory; make them one object"
            )
    kept = list(owners.values())
    for name, parameter, _ in kept:
        if parameter.device != kept[0][1].device:
            raise UsageError(
                f"parameter {name!r} lies on {parameter.device}, but {kept[0][0]!r} on {kept[0][1].device}; "
                "move the model to one device"
            )
    return kept


def _check(name: str, parameter: torch.Tensor) -> None:
    if is_lazy(parameter):
        raise UsageError(f"parameter {name!r} has no shape yet; run the model once on a batch first")
    if parameter.dtype != torch.float32 or parameter.layout != torch.strided:
        kind = parameter.dtype if parameter.layout == torch.strided else parameter.layout
        raise UsageError(
            f"parameter {name!r} must be float32 to live on servers, got {kind}; call .float() on the model"
        )
    if parameter.device.type == "meta":
        raise UsageError(f"parameter {name!r} lies on the meta device and has no values; call model.to_empty() first")
