"""Every row."""

from __future__ import annotations

from importlib import import_module

from fleet_paddle.rows import operators
from fleet_paddle.rows.function import Function

_FAMILIES = (
    "activation arithmetic asking conv image linear loss loss_special making newer noise norm ordering picking pool "
    "random reduction shaping vectors weighted"
)
_ROWS: list[list[Function]] = [import_module(f"fleet_paddle.rows.{name}").FUNCTIONS for name in _FAMILIES.split()]


def functions() -> list[Function]:
    """Every row, sorted by the function's name."""
    found = [*operators.functions(), *(one for family in _ROWS for one in family)]
    return sorted(found, key=lambda one: one.spelling.name)
