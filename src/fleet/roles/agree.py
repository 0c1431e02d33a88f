"""Variables that are spellings of one thing: any of them will do, but two that are set must say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fleet.env import Environ, EnvVariable
from fleet.errors import RoleError

T = TypeVar("T")


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
