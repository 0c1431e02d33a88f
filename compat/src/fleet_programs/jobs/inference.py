"""`fleet.save_inference_model` of a program: values are fetched from the servers, and one process can run it."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from fleet.errors import NotReadyError
from fleet_programs import io
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import scope_guard
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

if TYPE_CHECKING:
    from fleet_programs.jobs.job import ProgramJob


def save_inference_model(
    job: ProgramJob,
    executor: Executor,
    dirname: str | PathLike[str],
    feeded_var_names: Sequence[str],
    target_vars: Sequence[Variable],
    main_program: Program | None = None,
    export_for_deployment: bool = True,
) -> list[str]:
    """Save the part of the program that leads from feeds to targets, with the values that the servers have now."""
    program = main_program or job.origin
    if program is None:
        raise NotReadyError("fleet.save_inference_model(): call distributed_optimizer(...).minimize(loss) first")
    with scope_guard(job.scope("fleet.save_inference_model()")):
        made: list[Any] = io.save_inference_model(
            dirname, feeded_var_names, target_vars, executor, program, export_for_deployment=export_for_deployment
        )
    return made
