"""Every row."""

from __future__ import annotations

from importlib import import_module

from fleet_paddle.rows import operators
from fleet_paddle.rows.function import Function

_FAMILIES = {
    "networks": "activation conv image linear loss loss_special noise norm pool weighted",
    "tensors": "arithmetic asking making newer ordering picking random reduction shaping vectors",
}
_ROWS: list[list[Function]] = [
    import_module(f"fleet_paddle.rows.{room}.{name}").FUNCTIONS
    for room, names in _FAMILIES.items()
    for name in names.split()
]


def functions() -> list[Function]:
    """Every row, sorted by the function's name."""
    found = [*operators.functions(), *(one for family in _ROWS for one in family)]
    return sorted(found, key=lambda one: one.spelling.name)
