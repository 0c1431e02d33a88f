"""Settings of optimizers, schedules and clips, checked where they are given: the thing, the value, the remedy."""

from __future__ import annotations

from typing import TypedDict, TypeVar, Unpack

from fleet.errors import UsageError, UsageTypeError
from fleet.strategy.check import Check, Finite, RefusedError, Switch, Whole

T = TypeVar("T")


class Bounds(TypedDict, total=False):
    """Those of a number."""

    least: float | None
    most: float | None
    above: float | None
    below: float | None


def number(thing: str, name: str, value: object, **bounds: Unpack[Bounds]) -> float:
    """A finite number within bounds; `above` and `below` exclude their bound.

    >>> number("Adam", "beta1", 0.9, least=0, below=1)
    0.9
    """
    return checked(thing, name, value, Finite(**bounds))


def whole(thing: str, name: str, value: object, *, least: int | None = None) -> int:
    """An integer within bounds."""
    return checked(thing, name, value, Whole(least))


def switch(thing: str, name: str, value: object) -> bool:
    """True or False."""
    return checked(thing, name, value, Switch())


def checked(thing: str, name: str, value: object, check: Check[T]) -> T:
    """What the check makes of the value; UsageError or UsageTypeError that names the thing and the setting."""
    try:
        return check(value)
    except RefusedError as refused:
        is_type = not isinstance(value, bool | int | float)
        kind = UsageTypeError if is_type else UsageError
        raise kind(f"{thing}: {name} must be {refused.must}, got {value!r}") from None
