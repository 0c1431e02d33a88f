"""Save and load the variables of a program: all of some kind, or those that a predicate chooses.

Values come from and go to the global scope; `scope_guard` chooses another. A program whose parameters live on servers
is saved with them (`remote`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from fleet import checkpoint
from fleet.checkpoint.files.names import file_name_of
from fleet.errors import CheckpointError, NotReadyError, NotSupportedError, UsageTypeError
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import global_scope, scope_guard
from fleet_programs.executor.steps import plain
from fleet_programs.io.files import checked_filename, folder_of, read_tensors, write_tensors
from fleet_programs.io.listing import LISTING, Listing
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program, default_main_program
from fleet_programs.program.variable import Parameter, Variable
from fleet_programs.remote import remote

Dirname = str | os.PathLike[str]
Predicate = Callable[[Variable], bool]


def is_parameter(var: Variable) -> bool:
    """Whether it is a parameter."""
    return isinstance(var, Parameter)


def is_persistable(var: Variable) -> bool:
    """Whether it outlives a run: a parameter, the state of an optimizer, a running mean."""
    return var.persistable


def save_vars(
    executor: Executor,
    dirname: Dirname,
    main_program: Program | None = None,
    vars: Iterable[Variable | str] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> None:
    """Save `vars`, or the variables that `predicate` chooses: `dirname/NAME.npy` each, or all in one safetensors file.

    A character that file names cannot have is percent-encoded. What was there before under the same names is replaced.
    Parameters that a trainer's program has on servers come from there; the state of its optimizer does not.
    """
    check_executor(executor)
    program = program_of(main_program)
    vars = None if vars is None else list(vars)
    if SERVERS_NOTE in program.notes:
        if predicate is is_persistable:
            raise NotSupportedError(
                "save_vars: what this program keeps from step to step is on servers; use save_persistables()"
            )
        program = remote().with_tables(program)
        scope = remote().gathered(global_scope(), chosen(program, vars, predicate))
    else:
        scope = global_scope()
    with scope_guard(scope):
        values = values_of(program, chosen(program, vars, predicate))
    write_tensors(folder_of(dirname), values, checked_filename(filename))


def save_params(
    executor: Executor, dirname: Dirname, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Save the parameters of a program."""
    save_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def save_persistables(
    executor: Executor, dirname: Dirname, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Save everything that training goes on from: parameters, state of the optimizer, running means, counters."""
    program = program_of(main_program)
    if SERVERS_NOTE in program.notes:
        remote().save(executor, dirname, program, filename)
        return
    save_vars(executor, dirname, program, predicate=is_persistable, filename=filename)


def load_vars(
    executor: Executor,
    dirname: Dirname,
    main_program: Program | None = None,
    vars: Iterable[Variable | str] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> None:
    """Load what `save_vars` saved. Nothing is loaded unless all of it is there and fits."""
    check_executor(executor)
    program = program_of(main_program)
    wanted = chosen(program, vars, predicate)
    if SERVERS_NOTE in program.notes:
        remote().refuse_to_load(program, [var.name for var in wanted])
    if is_of_servers(folder_of(dirname), wanted, filename):
        raise CheckpointError(f"{dirname} was written by servers; load it with load_persistables()")
    assign(read_tensors(folder_of(dirname), wanted, checked_filename(filename)), executor.device)


def load_params(
    executor: Executor, dirname: Dirname, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Load the parameters of a program."""
    load_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def load_persistables(
    executor: Executor, dirname: Dirname, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Load what `save_persistables` saved, with servers or without.

    A program without servers takes what servers saved, too: parameters, rows and the state of their rules.
    """
    program = program_of(main_program)
    if SERVERS_NOTE in program.notes:
        remote().load(executor, dirname, program, filename)
        return
    if is_of_servers(folder_of(dirname), chosen(program, None, is_persistable), filename):
        remote().load_here(executor, dirname, program, filename)
        return
    load_vars(executor, dirname, program, predicate=is_persistable, filename=filename)


def is_of_servers(folder: Path, wanted: Iterable[Variable] = (), filename: str | None = None) -> bool:
    """Whether a folder holds a checkpoint that servers wrote, and no later save of these variables without servers."""
    try:
        saved = checkpoint.find(folder) / checkpoint.Manifest.FILE
    except CheckpointError:
        return False
    listing = Listing.of(folder)
    names = {filename or f"{file_name_of(var.name)}.npy" for var in wanted}
    is_later = bool(names) and names <= listing.files.keys()
    return not (is_later and (folder / LISTING).stat().st_mtime_ns > saved.stat().st_mtime_ns)


def program_of(given: Any) -> Program:
    """The program that a user named: the default one for None, its own for a CompiledProgram."""
    program = default_main_program() if given is None else plain(given)
    if not isinstance(program, Program):
        raise UsageTypeError(f"main_program must be a Program, got {type(given).__name__}")
    return program


def chosen(program: Program, vars: Iterable[Variable | str] | None, predicate: Predicate | None) -> list[Variable]:
    """The variables that are meant, each once."""
    if vars is None:
        if predicate is None:
            raise UsageTypeError("give vars, a list of variables, or predicate, a function that chooses them")
        found = [var for var in program.list_vars() if predicate(var)]
    else:
        if predicate is not None:
            raise UsageTypeError("give vars or predicate, not both")
        found = [program.global_block().var(one if isinstance(one, str) else one.name) for one in vars]
    return list({var.name: var for var in found}.values())


def values_of(program: Program, wanted: Iterable[Variable]) -> dict[str, torch.Tensor]:
    """The values of variables in the global scope; NotReadyError for one that has none."""
    tensors = global_scope().tensors
    found = {}
    for var in wanted:
        value = tensors.get(var.name)
        if value is None:
            if SERVERS_NOTE in program.notes:
                raise NotReadyError(
                    f"variable {var.name!r} has no value here: servers have it; use save_persistables()"
                )
            raise NotReadyError(f"variable {var.name!r} has no value; run the startup program before saving")
        found[var.name] = value
    return found


def assign(values: dict[str, torch.Tensor], device: torch.device) -> None:
    """Give variables of the global scope their values; a tensor that is there already keeps its place."""
    scope = global_scope()
    for name, tensor in values.items():
        scope.var(name).get_tensor().set(tensor, device)


def check_executor(executor: object) -> None:
    """UsageTypeError for anything that is no Executor."""
    if not isinstance(executor, Executor):
        raise UsageTypeError(f"executor must be an Executor, got {type(executor).__name__}")
