"""Every row."""

from __future__ import annotations

from fleet_paddle.rows import (
    activation,
    arithmetic,
    asking,
    conv,
    image,
    linear,
    loss,
    loss_special,
    making,
    noise,
    norm,
    operators,
    ordering,
    picking,
    pool,
    random,
    reduction,
    shaping,
    vectors,
    weighted,
)
from fleet_paddle.rows.function import Function

_FAMILIES = (
    activation,
    arithmetic,
    asking,
    conv,
    image,
    linear,
    loss,
    loss_special,
    making,
    noise,
    norm,
    ordering,
    picking,
    pool,
    random,
    reduction,
    shaping,
    vectors,
    weighted,
)


def functions() -> list[Function]:
    """Every row, sorted by the function's name."""
    found = [*operators.functions(), *(one for family in _FAMILIES for one in family.FUNCTIONS)]
    return sorted(found, key=lambda one: one.spelling.name)
