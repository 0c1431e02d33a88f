"""Rules: how a server changes values by a gradient. Arguments have torch's names, meanings and defaults.

One set of rules serves the rows of tables and dense parameters alike. The formulas are those of `torch.optim`, with one
step count for each row of a table: a row advances when it is pushed. The `lr` of a push replaces the one given here, so
a learning-rate schedule in the worker reaches the servers.

`Lars` and `Lamb` measure what they change: on a table each row by itself, on dense parameters the whole group. There a
parameter needs a group of its own, on one server and uncut.

>>> str(Adagrad(lr=0.05, per_row=True))
'adagrad_row(eps=1e-10, initial_accumulator_value=0, lr=0.05, lr_decay=0, maximize=0, weight_decay=0)'
"""
# ruff: noqa: N802  (named like the classes of torch.optim that they stand for)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import UsageError
from fleet.ps.argument_names import says_what_was_meant
from fleet.ps.spec import RuleSpec, checked
from fleet.strategy.check import Check, Many, Number, Switch

NOT_NEGATIVE = Number(least=0)
CHECKS: dict[str, Check[float]] = {
    "maximize": Switch(),
    "nesterov": Switch(),
    "amsgrad": Switch(),
    "centered": Switch(),
    "decoupled_weight_decay": Switch(),
    "dampening": Number(),
    "beta1": Number(least=0, below=1),
    "beta2": Number(least=0, below=1),
    "alpha": Number(least=0, below=1),
    "decay": Number(least=0, below=1),
    "lr_power": Number(least=-1, most=0),
}


@says_what_was_meant
def SGD(
    lr: float = 0.001,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """`torch.optim.SGD`. With a momentum it is `Momentum`, which keeps one more value for each weight."""
    if momentum != 0:
        return Momentum(lr, momentum, dampening, weight_decay, nesterov, maximize=maximize)
    if dampening != 0 or nesterov:
        name, value = ("nesterov", nesterov) if nesterov else ("dampening", dampening)
        raise UsageError(f"rule sgd: {name} needs a momentum, got {name}={value} and momentum=0; give one")
    return _rule("sgd", lr=lr, weight_decay=weight_decay, maximize=maximize)


@says_what_was_meant
def Momentum(
    lr: float = 0.001,
    momentum: float = 0.9,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """`torch.optim.SGD` with a momentum above 0."""
    checked("rule momentum", "momentum", momentum, Number(above=0))
    if nesterov and dampening != 0:
        raise UsageError(f"rule momentum: nesterov needs dampening 0, got {dampening}")
    return _rule(
        "momentum",
        lr=lr,
        momentum=momentum,
        dampening=dampening,
        weight_decay=weight_decay,
        nesterov=nesterov,
        maximize=maximize,
    )


@says_what_was_meant
def Adagrad(
    lr: float = 0.01,
    lr_decay: float = 0.0,
    weight_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
    *,
    maximize: bool = False,
    per_row: bool = False,
) -> RuleSpec:
    """`torch.optim.Adagrad`. `per_row` keeps one sum for a whole row, of the mean of its squared gradients."""
    return _rule(
        "adagrad_row" if checked("rule adagrad", "per_row", per_row, Switch()) else "adagrad",
        lr=lr,
        lr_decay=lr_decay,
        weight_decay=weight_decay,
        initial_accumulator_value=initial_accumulator_value,
        eps=eps,
        maximize=maximize,
    )


@says_what_was_meant
def DecayedAdagrad(
    lr: float = 0.01,
    decay: float = 0.95,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """Adagrad that forgets: a mean of squares that fades by `decay`, in place of their sum."""
    return _rule("decayed_adagrad", lr=lr, decay=decay, eps=eps, weight_decay=weight_decay, maximize=maximize)


@says_what_was_meant
def Adam(
    lr: float = 0.001,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> RuleSpec:
    """`torch.optim.Adam`."""
    decoupled = {"decoupled_weight_decay": decoupled_weight_decay}
    return _adam("adam", lr, betas, eps, weight_decay, amsgrad, maximize, **decoupled)


@says_what_was_meant
def AdamW(
    lr: float = 0.001,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """`torch.optim.AdamW`."""
    return _adam("adamw", lr, betas, eps, weight_decay, amsgrad, maximize)


@says_what_was_meant
def Adamax(
    lr: float = 0.002,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """`torch.optim.Adamax`: Adam over the largest gradient, which fades, in place of the root of their squares."""
    args = _betas("adamax", betas)
    return _rule("adamax", lr=lr, **args, eps=eps, weight_decay=weight_decay, maximize=maximize)


@says_what_was_meant
def RMSprop(
    lr: float = 0.01,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """`torch.optim.RMSprop`."""
    return _rule(
        "rmsprop",
        lr=lr,
        alpha=alpha,
        eps=eps,
        weight_decay=weight_decay,
        momentum=momentum,
        centered=centered,
        maximize=maximize,
    )


@says_what_was_meant
def Ftrl(
    lr: float = 0.001,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
    initial_accumulator_value: float = 0.1,
    weight_decay: float = 0.0,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """FTRL-Proximal (McMahan et al., 2013): `l1` makes weights exactly 0."""
    return _rule(
        "ftrl",
        lr=lr,
        l1=l1,
        l2=l2,
        lr_power=lr_power,
        initial_accumulator_value=initial_accumulator_value,
        weight_decay=weight_decay,
        maximize=maximize,
    )


@says_what_was_meant
def Lars(
    lr: float,
    momentum: float = 0.9,
    coeff: float = 0.001,
    weight_decay: float = 0.0005,
    eps: float = 0.0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """`fleet.optim.Lars`: momentum whose rate is set by the norms of the weights and of their gradient."""
    return _rule(
        "lars",
        lr=lr,
        momentum=momentum,
        coeff=coeff,
        weight_decay=weight_decay,
        eps=eps,
        nesterov=nesterov,
        maximize=maximize,
    )


@says_what_was_meant
def Lamb(
    lr: float = 0.001,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    *,
    maximize: bool = False,
) -> RuleSpec:
    """`fleet.optim.Lamb`: Adam whose step is scaled by the norms of the weights and of its direction."""
    args = _betas("lamb", betas)
    return _rule("lamb", lr=lr, **args, eps=eps, weight_decay=weight_decay, maximize=maximize)


@says_what_was_meant
def Sum() -> RuleSpec:
    """Adds what is pushed: the rule of servers in geo mode, where workers push differences."""
    return _rule("sum")


def _adam(
    name: str,
    lr: float,
    betas: Sequence[float],
    eps: float,
    weight_decay: float,
    amsgrad: bool,
    maximize: bool,
    **more: bool,
) -> RuleSpec:
    args = {**_betas(name, betas), **more}
    return _rule(name, lr=lr, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize, **args)


def _betas(name: str, betas: Sequence[float]) -> dict[str, float]:
    pair = checked(f"rule {name}", "betas", betas, Many(Number()))
    if len(pair) != 2:
        raise UsageError(f"rule {name}: betas must be two numbers, got {len(pair)}")
    return {"beta1": pair[0], "beta2": pair[1]}


def _rule(name: str, **args: Any) -> RuleSpec:
    clean = {arg: checked(f"rule {name}", arg, value, CHECKS.get(arg, NOT_NEGATIVE)) for arg, value in args.items()}
    return RuleSpec(name, tuple((arg, float(value)) for arg, value in clean.items()))
