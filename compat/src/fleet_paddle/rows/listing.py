"""Every row."""

from __future__ import annotations

from fleet_paddle.rows import (
    arithmetic,
    asking,
    linear,
    making,
    operators,
    ordering,
    picking,
    random,
    reduction,
    shaping,
)
from fleet_paddle.rows.function import Function

_FAMILIES = (arithmetic, asking, linear, making, ordering, picking, random, reduction, shaping)


def functions() -> list[Function]:
    """Every row, sorted by the function's name."""
    found = [*operators.functions(), *(one for family in _FAMILIES for one in family.FUNCTIONS)]
    return sorted(found, key=lambda one: one.spelling.name)
