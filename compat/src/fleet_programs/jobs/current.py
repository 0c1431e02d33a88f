"""The programs of this process's job: `main_program` and `startup_program`, after `minimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.api import Fleet
from fleet.api import fleet as shared
from fleet.errors import NotReadyError
from fleet_programs.jobs.job import ProgramJob

if TYPE_CHECKING:
    from fleet_programs.program.program import Program

    main_program: Program
    startup_program: Program


def main_program_of(job: Fleet) -> Program:
    """The program to train, after `minimize` of a distributed optimizer."""
    return _programs_of(job, "fleet_programs.main_program").main_program


def startup_program_of(job: Fleet) -> Program:
    """The program to run first, after `minimize` of a distributed optimizer."""
    return _programs_of(job, "fleet_programs.startup_program").startup_program


def _programs_of(job: Fleet, what: str) -> ProgramJob:
    programs = job.registered_job
    if not isinstance(programs, ProgramJob):
        raise NotReadyError(f"{what}: call fleet.distributed_optimizer(optimizer).minimize(loss) first")
    return programs


def __getattr__(name: str) -> object:
    if name == "main_program":
        return main_program_of(shared)
    if name == "startup_program":
        return startup_program_of(shared)
    raise AttributeError(f"module 'fleet_programs.jobs.current' has no attribute {name!r}")
