"""Rules: how a server changes values by a gradient. Arguments have torch's names, meanings and defaults.

One set of rules serves the rows of tables and dense parameters alike. The formulas are those of `torch.optim`, with one
step count for each row of a table: a row advances when it is pushed. The `lr` of a push replaces the one given here, so
a learning-rate schedule in the worker reaches the servers.

`Lars` and `Lamb` measure what they change: on a table each row by itself, on dense parameters the whole group. There a
parameter needs a group of its own, on one server and uncut.

>>> str(Adagrad(lr=0.05, per_row=True))
'adagrad_row(eps=1e-10, initial_accumulator_value=0, lr=0.05, lr_decay=0, maximize=0, weight_decay=0)'
"""

from __future__ import annotations

# ruff: noqa: ARG001, N802  (arguments are read by `_rule`; named like the classes of torch.optim that they stand for)
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

from fleet.errors import UsageError
from fleet.ps.job.checks import checked, says_what_was_meant
from fleet.ps.job.named_spec import RuleSpec
from fleet.strategy.check import Check, Finite, Many, Switch

NOT_NEGATIVE = Finite(least=0)
CHECKS: dict[str, Check[float]] = {
    "maximize": Switch(),
    "nesterov": Switch(),
    "amsgrad": Switch(),
    "centered": Switch(),
    "decoupled_weight_decay": Switch(),
    "dampening": Finite(),
    "beta1": Finite(least=0, below=1),
    "beta2": Finite(least=0, below=1),
    "alpha": Finite(least=0, below=1),
    "decay": Finite(least=0, below=1),
    "lr_power": Finite(least=-1, most=0),
}

P = ParamSpec("P")


def _rule(name: str) -> Callable[[Callable[P, None]], Callable[P, RuleSpec]]:
    """Turn the function below into a constructor of the rule `name`: its arguments, checked, become a `RuleSpec`.

    `CHECKS` has the check of each argument, by its name. The body of the function, which runs first, has only those
    checks that are this rule's own, such as one argument against another.
    """

    def decorate(check: Callable[P, None]) -> Callable[P, RuleSpec]:
        arguments = signature(check)

        @wraps(check)
        def construct(*args: P.args, **kwargs: P.kwargs) -> RuleSpec:
            check(*args, **kwargs)
            given = arguments.bind(*args, **kwargs)
            given.apply_defaults()
            return _spec(name, **given.arguments)

        # `wraps` has given it those of `check`, which returns nothing.
        construct.__annotations__ = {**check.__annotations__, "return": "RuleSpec"}
        construct.__dict__["__signature__"] = arguments.replace(return_annotation="RuleSpec")
        return says_what_was_meant(construct)

    return decorate


def _spec(name: str, **args: Any) -> RuleSpec:
    if "betas" in args:
        args["beta1"], args["beta2"] = _betas(name, args.pop("betas"))
    if args.pop("per_row", False):
        name += "_row"
    clean = {arg: checked(f"rule {name}", arg, value, CHECKS.get(arg, NOT_NEGATIVE)) for arg, value in args.items()}
    return RuleSpec(name, tuple((arg, float(value)) for arg, value in clean.items()))


def _betas(name: str, betas: Sequence[float]) -> tuple[float, ...]:
    pair = checked(f"rule {name}", "betas", betas, Many(Finite()))
    if len(pair) != 2:
        raise UsageError(f"rule {name}: betas must be two numbers, got {len(pair)}")
    return pair


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
    return _spec("sgd", lr=lr, weight_decay=weight_decay, maximize=maximize)


@_rule("momentum")
def Momentum(
    lr: float = 0.001,
    momentum: float = 0.9,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> None:
    """`torch.optim.SGD` with a momentum above 0."""
    checked("rule momentum", "momentum", momentum, Finite(above=0))
    if nesterov and dampening != 0:
        raise UsageError(f"rule momentum: nesterov needs dampening 0, got {dampening}")


@_rule("adagrad")
def Adagrad(
    lr: float = 0.01,
    lr_decay: float = 0.0,
    weight_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
    *,
    maximize: bool = False,
    per_row: bool = False,
) -> None:
    """`torch.optim.Adagrad`. `per_row` keeps one sum for a whole row, of the mean of its squared gradients."""
    checked("rule adagrad", "per_row", per_row, Switch())


@_rule("decayed_adagrad")
def DecayedAdagrad(
    lr: float = 0.01,
    decay: float = 0.95,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    *,
    maximize: bool = False,
) -> None:
    """Adagrad that forgets: a mean of squares that fades by `decay`, in place of their sum."""


@_rule("adam")
def Adam(
    lr: float = 0.001,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> None:
    """`torch.optim.Adam`."""


@_rule("adamw")
def AdamW(
    lr: float = 0.001,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
) -> None:
    """`torch.optim.AdamW`."""


@_rule("adamax")
def Adamax(
    lr: float = 0.002,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    *,
    maximize: bool = False,
) -> None:
    """`torch.optim.Adamax`: Adam over the largest gradient, which fades, in place of the root of their squares."""


@_rule("rmsprop")
def RMSprop(
    lr: float = 0.01,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    *,
    maximize: bool = False,
) -> None:
    """`torch.optim.RMSprop`."""


@_rule("ftrl")
def Ftrl(
    lr: float = 0.001,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
    initial_accumulator_value: float = 0.1,
    weight_decay: float = 0.0,
    *,
    maximize: bool = False,
) -> None:
    """FTRL-Proximal (McMahan et al., 2013): `l1` makes weights exactly 0."""


@_rule("lars")
def Lars(
    lr: float,
    momentum: float = 0.9,
    coeff: float = 0.001,
    weight_decay: float = 0.0005,
    eps: float = 0.0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> None:
    """`fleet.optim.Lars`: momentum whose rate is set by the norms of the weights and of their gradient."""


@_rule("lamb")
def Lamb(
    lr: float = 0.001,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    *,
    maximize: bool = False,
) -> None:
    """`fleet.optim.Lamb`: Adam whose step is scaled by the norms of the weights and of its direction."""


@_rule("sum")
def Sum() -> None:
    """Adds what is pushed: the rule of servers in geo mode, where workers push differences."""


@_rule("average")
def Average(lr: float = 1.0) -> None:
    """Moves values towards those pushed, by the share `lr`: the rule of running statistics, such as a batch norm's."""
