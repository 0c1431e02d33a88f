"""Optimizers whose arguments are fields of their class: checked when given, and mostly attributes of the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter as Argument
from inspect import Signature
from typing import Any, ClassVar, dataclass_transform

from fleet.errors import UsageTypeError
from fleet.strategy.check import Check, Finite
from fleet_programs.backward.clip import GradientClip
from fleet_programs.optimizer.base import Accumulator, Optimizer
from fleet_programs.parameters.settings import checked
from fleet_programs.program.variable import Parameter, Penalty, Variable

NOT_NEGATIVE = Finite(least=0)
FRACTION = Finite(least=0, below=1)


@dataclass(frozen=True)
class _Setting:
    default: Any
    check: Check[Any] | None
    attr: str | None
    kw_only: bool


def setting(
    *,
    default: Any = Argument.empty,
    check: Check[Any] | None = NOT_NEGATIVE,
    attr: str | None = "",
    kw_only: bool = False,
) -> Any:
    """A field: its default, unless it must be given; `attr` is the operator's attribute, None if it is none."""
    return _Setting(default, check, attr, kw_only)


def _init_of(settings: dict[str, _Setting]) -> Callable[..., None]:
    kinds = {False: Argument.POSITIONAL_OR_KEYWORD, True: Argument.KEYWORD_ONLY}
    arguments = [Argument(name, kinds[one.kw_only], default=one.default) for name, one in settings.items()]
    me = Argument("self", Argument.POSITIONAL_ONLY)
    signature = Signature([me, *sorted(arguments, key=lambda one: one.kind)])
    common = [name for name, one in settings.items() if one.check is None]

    def __init__(self: Declared, *args: Any, **named: Any) -> None:  # noqa: N807
        try:
            bound = signature.bind(self, *args, **named)
        except TypeError as error:
            raise UsageTypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        given = bound.arguments
        Optimizer.__init__(self, **{name: given[name] for name in common})
        for name, one in settings.items():
            if one.check is not None:
                setattr(self, name, checked(type(self).__name__, name, given[name], one.check))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


@dataclass_transform(field_specifiers=(setting,))
class _Fields(Optimizer):
    """Makes `__init__` of all fields of a class, inherited ones first; one that is declared again keeps its place."""

    settings: ClassVar[dict[str, _Setting]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Setting)}
        if own:
            cls.settings = {**cls.settings, **own}
            for name in own:
                delattr(cls, name)  # what an instance keeps is its own
            type.__setattr__(cls, "__init__", _init_of(cls.settings))
        super().__init_subclass__()


class Declared(_Fields):
    """What every optimizer takes; see `Optimizer`. A subclass adds fields and says what it `keeps`."""

    learning_rate: float | Variable = setting(check=None, attr=None)
    regularization: Penalty | None = setting(default=None, check=None, attr=None, kw_only=True)
    grad_clip: GradientClip | None = setting(default=None, check=None, attr=None, kw_only=True)
    name: str | None = setting(default=None, check=None, attr=None, kw_only=True)
    parameter_list: Sequence[Parameter | str] | None = setting(default=None, check=None, attr=None, kw_only=True)

    keeps: ClassVar[Sequence[Accumulator]] = ()

    def attrs(self, parameter: Parameter) -> dict[str, Any]:  # noqa: ARG002
        return {one.attr or name: getattr(self, name) for name, one in self.settings.items() if one.attr is not None}

    def accumulators(self) -> Sequence[Accumulator]:
        return self.keeps
