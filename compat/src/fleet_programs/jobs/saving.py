"""A distributed program on disk: what the servers hold is a checkpoint, and the trainer's own variables are in it.

It loads into any number of servers (by a trainer, or when servers start), and into one process that runs the same
program without servers: there parameters, rows and the state of their rules become variables of the scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fleet import checkpoint
from fleet.errors import CheckpointError, NotReadyError, NotSupportedError, UsageError
from fleet.runtime.saved import saving
from fleet.strategy.mode import Mode
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.scope import Scope, global_scope
from fleet_programs.jobs.states import restore
from fleet_programs.jobs.trainer import Trainer
from fleet_programs.jobs.trainer_variables import (
    prepare_trainer_variables,
    read_trainer_variables,
    write_trainer_variables,
)
from fleet_programs.jobs.values import values_of
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.updates import is_update

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker

Folder = str | PathLike[str]


def save(executor: Executor, dirname: Folder, program: Program, filename: str | None = None) -> None:
    """Write everything that training goes on from; one trainer calls it, on a file system that servers share."""
    _check(executor, filename)
    scope = global_scope()
    trainer = _joined(scope)
    saving.save(trainer.worker, dirname, lambda folder: write_trainer_variables(folder, program, scope))


def load(executor: Executor, dirname: Folder, program: Program, filename: str | None = None) -> None:
    """Load a checkpoint: with a server's program, what it begins to serve with; with a trainer's, everything.

    One of several trainers cannot replace what the servers hold while the others go on. Where the servers have begun
    with this checkpoint, it takes its own variables from it: counters of schedules, running means.
    """
    _check(executor, filename)
    scope = global_scope()
    folder = _written_by_servers(dirname)
    if any(op.type == "listen_and_serv" for op in program.global_block().ops):
        scope.model_dir = str(folder)
        return
    worker = Trainer.of(program, scope, executor.device).worker
    take_over = prepare_trainer_variables(folder, program, scope)
    if worker.client.job.num_workers == 1:
        saving.load(worker, folder)
    elif not _begins_with(worker, checkpoint.read_manifest(folder).version):
        raise NotSupportedError(
            "load_persistables: other trainers would go on meanwhile; give the folder to fleet.init_server(), or to "
            "load_persistables() with each server's program, or call fleet.load_model() in every worker"
        )
    take_over()


def _written_by_servers(dirname: Folder) -> Path:
    try:
        return checkpoint.find(dirname)
    except CheckpointError as error:
        if not any(Path(dirname).glob("*.npy")):
            raise
        raise CheckpointError(
            f"{dirname} has variables of a program without servers, and parameters of this one are on servers; load "
            "it into the program as one process runs it, or begin with such values: "
            "initializer=fleet_programs.parameters.initializer.NumpyArray(...)"
        ) from error


def refuse_to_load(program: Program, names: Iterable[str]) -> None:
    """UsageError if a variable is on servers, which would replace what is loaded here."""
    plan = Plan.from_note(program.notes[SERVERS_NOTE])
    known = {*plan.dense, *plan.tables}
    for name in names:
        if name in known:
            raise UsageError(
                f"parameter {name!r} is on servers, whose values would replace what is loaded here; give the servers "
                "a checkpoint with load_persistables(), or begin with a value: "
                "initializer=fleet_programs.parameters.initializer.NumpyArray(...)"
            )


def _begins_with(worker: Worker, version: int) -> bool:
    """Whether the servers have begun with a checkpoint of this version, and the worker has not trained since."""
    if worker.client.job.mode == Mode.SYNC:
        return worker.num_steps == version
    return worker.num_steps == 0 and worker.policy.version >= version


def load_here(executor: Executor, dirname: Folder, program: Program, filename: str | None = None) -> None:
    """Load a checkpoint of servers into a program without servers, in this process; all of it, or nothing."""
    _check(executor, filename)
    scope = global_scope()
    folder = checkpoint.find(dirname)
    is_trained = any(is_update(op) for op in program.global_block().ops)
    restored = restore(program, folder, scope) if is_trained else values_of(program, folder, scope)
    values = restored | read_trainer_variables(folder)
    wanted = [var for var in program.list_vars() if var.persistable]
    for var in wanted:
        if var.name not in values:
            raise CheckpointError(f"{folder} has no variable {var.name!r}; load it into the program it is from")
        if tuple(var.shape) != values[var.name].shape:
            raise CheckpointError(
                f"variable {var.name!r} has shape {list(var.shape)}, and {list(values[var.name].shape)} in {folder}; "
                "load it into the program it is from"
            )
    for var in wanted:
        scope.var(var.name).get_tensor().set(torch.from_numpy(values[var.name]), executor.device)


def _joined(scope: Scope) -> Trainer:
    trainer = Trainer.at(scope)
    if trainer is None or not trainer.has_joined:
        raise NotReadyError(
            "save_persistables() needs the servers, and this process has not joined them; run the startup program first"
        )
    return trainer


def _check(executor: object, filename: str | None) -> None:
    if not isinstance(executor, Executor):
        raise UsageError(f"executor must be an Executor, got {type(executor).__name__}")
    if filename is not None:
        raise UsageError("filename: a program with servers is saved as a folder of pieces; leave it out")
