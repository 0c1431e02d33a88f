"""`memory_optimize`: values of a program are let go where they are used last."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.program.notes import MEMORY_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


def memory_optimize(
    input_program: Program | None = None,
    skip_opt_set: Iterable[Variable | str] | None = None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = True,
) -> None:
    """Let the Executor free every value of the program where it was used last, instead of when a run ends.

    `skip_opt_set` names values to keep; with `skip_grads` gradients of parameters are kept as well. Call it before
    `transpile`, and only on trainers. What is fetched or persistable always stays. `level` 0 and 1 are the same.
    """
    from fleet_programs.program.program import default_main_program

    program = default_main_program() if input_program is None else input_program
    if not isinstance(program, Program):
        raise UsageTypeError(f"input_program must be a Program, got {type(program).__name__}")
    if level not in (0, 1):
        raise UsageError(f"level must be 0 or 1, got {level}")
    keep = sorted(one if isinstance(one, str) else one.name for one in skip_opt_set or ())
    for name in keep:
        program.global_block().var(name)
    program.notes[MEMORY_NOTE] = {"skip_grads": bool(skip_grads), "keep": keep}
    program.changed()
    if print_log:
        temporary = [var for var in program.list_vars() if not var.persistable and not var.is_data]
        _log.warning("memory_optimize: %d values will be freed early, %d kept", len(temporary) - len(keep), len(keep))


def release_memory(input_program: Program | None = None, skip_opt_set: Iterable[Variable | str] | None = None) -> None:
    """`memory_optimize` under its other name."""
    memory_optimize(input_program, skip_opt_set)
