"""Checks that declarations share: of values, named with their owner, and of names of arguments."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from fleet.errors import UsageError, UsageTypeError
from fleet.json_form import shown
from fleet.strategy.check import Check, RefusedError, Text

P = ParamSpec("P")
R = TypeVar("R")
# What other libraries call the same thing, where the letters alone would lead elsewhere.
ELSEWHERE = {
    "learning_rate": "lr",
    "epsilon": "eps",
    "beta1": "betas",
    "beta2": "betas",
    "rho": "alpha",
    "loc": "mean",
    "scale": "std",
    "stddev": "std",
}


T = TypeVar("T")


def checked(owner: str, name: str, value: object, check: Check[T]) -> T:
    """The clean value, or a UsageError of one line: `table 'ads': width must be >= 1, got 0`."""
    try:
        return check(value)
    except RefusedError as refused:
        raise UsageError(f"{owner}: {name}{refused.where} must be {refused.must}, got {shown(refused.value)}") from None


def checked_name(owner: str, value: object) -> str:
    """A name that can be printed; UsageError for anything else."""
    name = checked(owner, "name", value, Text())
    if not name or not name.isprintable():
        raise UsageError(f"{owner}: name must be printable text of at least one character, got {shown(name)}")
    return name


def instance_of(owner: str, name: str, value: object, kind: type[T], where: str) -> T:
    """The value if it is of this kind; else a UsageError that says `where` to make one."""
    if not isinstance(value, kind):
        raise UsageError(f"{owner}: {name} must be a {kind.__name__}, got {shown(value)}; make one with {where}")
    return value


def refuse_twice(what: str, names: Iterable[str]) -> None:
    """UsageError if a name comes twice; `what` they name, such as `table`."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{what} {name!r} is declared twice; give each its own name")
        seen.add(name)


def set_frozen(target: object, **values: Any) -> None:
    """Set fields of a frozen dataclass from its own `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(target, name, value)  # the dataclass is frozen for everyone else


def says_what_was_meant(made: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function of `fleet.ps`: an unknown argument raises a UsageTypeError that suggests a known one."""
    names = list(signature(made).parameters)
    called = f"{made.__module__.replace('fleet.ps.job.', 'fleet.')}.{made.__name__}"

    @wraps(made)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in names:
                raise UsageTypeError(f"{called} has no argument {name!r}; {_advice(name, names)}")
        return made(*args, **kwargs)

    return checked


def _advice(name: str, names: list[str]) -> str:
    near = [ELSEWHERE[name]] if ELSEWHERE.get(name) in names else get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"it has {', '.join(names)}" if names else "it takes none"
