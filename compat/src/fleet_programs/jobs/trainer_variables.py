"""A trainer's own variables in a checkpoint that servers write: counters of schedules, running means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fleet import checkpoint
from fleet.checkpoint.files.files import FileInfo
from fleet.errors import CheckpointError
from fleet_programs.definition.dtypes import torch_dtype
from fleet_programs.executor.scope import Scope
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import Plan

Folder = str | PathLike[str]

TRAINER_FILE = "trainer.safetensors"


def prepare_trainer_variables(dirname: Folder, program: Program, scope: Scope) -> Callable[[], None]:
    """Read and check the trainer's own variables in a checkpoint; calling the result puts them into the scope."""
    known = {var.name: var for var in program.list_vars() if var.persistable}
    found = read_trainer_variables(checkpoint.find(dirname), {name: tuple(var.shape) for name, var in known.items()})

    def take_over() -> None:
        for name, array in found.items():
            scope.var(name).get_tensor().set(torch.from_numpy(array).to(torch_dtype(known[name].dtype)))

    return take_over


def trainer_variables(program: Program) -> list[str]:
    """Persistable variables that are in the trainer, not on servers."""
    plan = Plan.from_note(program.notes[SERVERS_NOTE])
    elsewhere = {*plan.dense, *plan.tables}
    return [var.name for var in program.list_vars() if var.persistable and var.name not in elsewhere]


def write_trainer_variables(folder: Path, program: Program, scope: Scope) -> Sequence[FileInfo]:
    """Put the trainer's own variables beside what servers wrote."""
    names = [name for name in trainer_variables(program) if name in scope]
    arrays: dict[str, Any] = {name: np.ascontiguousarray(scope.tensors[name].cpu().numpy()) for name in names}
    codes = {name: "BOOL" for name, array in arrays.items() if array.dtype == np.bool_}
    plain = {name: array.view(np.uint8) if name in codes else array for name, array in arrays.items()}
    return [checkpoint.write_piece(folder / TRAINER_FILE, plain, {"kind": "trainer"}, codes)]


def read_trainer_variables(folder: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, Any]:
    """The trainer's own variables in a checkpoint, if it has any: all, or those of `shapes`, which must fit."""
    infos = [info for info in checkpoint.read_manifest(folder).others if info.name == TRAINER_FILE]
    found = checkpoint.read_piece(folder / TRAINER_FILE, infos[0]) if infos else {}
    if shapes is None:
        return found
    for name, array in found.items():
        if shapes.get(name, array.shape) != array.shape:
            raise CheckpointError(
                f"variable {name!r} has shape {list(shapes[name])}, and {list(array.shape)} in {folder}; load it into "
                "the program it is from"
            )
    return {name: array for name, array in found.items() if name in shapes}
