"""Checks that declarations share: a value that is refused is named with its owner, in an error of one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from fleet.errors import UsageError
from fleet.strategy.check import Check, RefusedError, Text
from fleet.strategy.field import shown

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
