"""Whether a call was given variables of a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet_programs.program.variable import Variable


def has_variable(values: Iterable[Any]) -> bool:
    """Whether one of the values is a variable, or a list that begins with one."""
    for value in values:
        first = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(first, Variable):
            return True
    return False
