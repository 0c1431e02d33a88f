"""Checks of what the user passes to a role maker; each error names the argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fleet.env import Environ, EnvVariable
from fleet.errors import EndpointError, RoleError, UsageError, UsageTypeError
from fleet.net import Endpoint, refuse_duplicates

T = TypeVar("T")


def whole(name: str, value: object, *, least: int) -> int:
    """A whole number of at least `least`; UsageTypeError or UsageError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageTypeError(f"{name} must be an int, got {value!r}")
    if value < least:
        raise UsageError(f"{name} must be >= {least}, got {value}")
    return value


def endpoints(name: str, value: object) -> tuple[Endpoint, ...]:
    """Parsed endpoints, at least one and each once; an error for anything else."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise UsageTypeError(f'{name} must be a list of "HOST:PORT" strings, got {value!r}')
    if not value:
        raise EndpointError(f"{name} must not be empty; give one HOST:PORT for each process")
    parsed = tuple(Endpoint.parse(item, name) for item in value)
    refuse_duplicates(parsed, name)
    return parsed


def no_such_argument(maker: str, name: str, known: Sequence[str]) -> str:
    """The message for an argument that does not exist, with the nearest one that does."""
    from difflib import get_close_matches  # which only a mistake needs

    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
    return f"{maker} has no argument {name}; {hint}"


def agreed(spellings: Sequence[EnvVariable[T]], environ: Environ | None) -> T | None:
    """The value of whichever spelling is set, or None; RoleError names both if two differ."""
    found: tuple[str, T] | None = None
    for variable in spellings:
        value = variable.get(environ)
        if value is None:
            continue
        if found is not None and found[1] != value:
            raise RoleError(f"{found[0]}={found[1]} and {variable.name}={value} mean the same but disagree; unset one")
        found = found or (variable.name, value)
    return None if found is None else found[1]
