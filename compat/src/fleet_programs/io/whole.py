"""`save` and `load`: a program and all its values under one path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import global_scope, scope_guard
from fleet_programs.io.files import Replacing, read_tensors
from fleet_programs.io.listing import Listing
from fleet_programs.io.variables import (
    assign,
    chosen,
    is_parameter,
    is_persistable,
    program_of,
    values_of,
)
from fleet_programs.program.json_form import to_json
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from fleet_programs.remote import remote

PARAMETERS, STATE, PROGRAM = ".params.safetensors", ".state.safetensors", ".program.json"


def save(program: Program, model_path: str | os.PathLike[str]) -> None:
    """Save a program: MODEL_PATH.params.safetensors, .state.safetensors (all else that lasts) and .program.json.

    The three take their places together, when all are on the disk: a save that fails leaves the one before it. Of a
    program with servers the parameters come from there. Its optimizer's state does not; save_persistables() has it.
    """
    program, scope = program_of(program), global_scope()
    folder, stem = _place(model_path)
    if SERVERS_NOTE in program.notes:
        program = remote().with_tables(program)
        scope = remote().gathered(scope, chosen(program, None, is_parameter))
    lasting = chosen(program, None, is_persistable)
    with scope_guard(scope):
        values = values_of(program, lasting)
    parameters = {var.name for var in lasting if is_parameter(var)}
    written = to_json(program)
    with Replacing(folder) as replacing:
        replacing.tensors({name: values[name] for name in values if name in parameters}, stem + PARAMETERS)
        replacing.tensors({name: values[name] for name in values if name not in parameters}, stem + STATE)
        replacing.text(stem + PROGRAM, written)


def load(
    program: Program,
    model_path: str | os.PathLike[str],
    executor: Executor | None = None,
    var_list: Iterable[Variable | str] | None = None,
) -> None:
    """Load what `save` saved, or only `var_list` of it; on the executor's device, else where the values are now."""
    program = _local(program)
    folder, stem = _place(model_path)
    wanted = chosen(program, var_list, None if var_list is not None else is_persistable)
    parameters = [var for var in wanted if is_parameter(var)]
    state = [var for var in wanted if not is_parameter(var)]
    listing = Listing.of(folder)
    if stem + PROGRAM in listing.files:  # nobody reads it here, but what was saved is all three
        listing.check(stem + PROGRAM)
    values = read_tensors(folder, parameters, stem + PARAMETERS) if parameters else {}
    values |= read_tensors(folder, state, stem + STATE) if state else {}
    assign(values, torch.device("cpu") if executor is None else executor.device)


def _local(program: Program) -> Program:
    program = program_of(program)
    if SERVERS_NOTE in program.notes:
        raise NotSupportedError("the parameters of this program are on servers; use static.io.load_persistables()")
    return program


def _place(model_path: str | os.PathLike[str]) -> tuple[Path, str]:
    path = Path(model_path)
    if not path.name:
        raise UsageError(f"model_path must end with a name, such as 'models/mnist', got {str(model_path)!r}")
    return path.parent, path.name
