"""Functions of 2.0 as rows: how each is called, what it is on tensors, and what it is on variables of a program.

Most come from the definitions of operators (`operators`), which name 2.0's spelling. A function that is no single
operator has its row here, in the file of its family. `functions(home)` is all of them; the modules called `table` hold
what is compiled from them, and beside each a stub for editors, which `make docs` writes.
"""

from __future__ import annotations

from fleet_paddle.rows import (
    activation,
    conv,
    image,
    loss,
    loss_special,
    noise,
    norm,
    operators,
    pool,
    reduction,
    vectors,
    weighted,
)
from fleet_paddle.rows.function import Function

_FAMILIES = (activation, conv, image, loss, loss_special, noise, norm, pool, reduction, vectors, weighted)


def functions() -> list[Function]:
    """Every row, sorted by the function's name."""
    found = [*operators.functions(), *(one for family in _FAMILIES for one in family.FUNCTIONS)]
    return sorted(found, key=lambda one: one.spelling.name)
