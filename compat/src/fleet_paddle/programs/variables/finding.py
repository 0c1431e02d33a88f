"""Variables and their values by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.errors import UsageError
from fleet_programs.executor.scope import Scope, global_scope
from fleet_programs.program.program import Program, default_main_program
from fleet_programs.program.variable import Variable


def variable_named(name: str, program: Program | None = None) -> Variable:
    """The variable of that name in block 0 of a program."""
    return (program or default_main_program()).global_block().var(name)


def value_named(name: str, scope: Scope | None = None, return_numpy: bool = True) -> Any:
    """What a scope holds under a name: an array, or the tensor itself."""
    found = (scope or global_scope()).find_var(name)
    if found is None:
        raise UsageError(f"the scope has no {name!r}; run the startup program first")
    tensor = found.get_tensor()
    return np.array(tensor) if return_numpy else tensor
