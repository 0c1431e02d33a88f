"""Gathers the values of a distributed program: a program and a scope that one process can go on with.

Servers are asked for all values that they hold, which go into a separate scope: training does not notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike

import torch

from fleet.errors import NotReadyError, NotSupportedError
from fleet.ps.worker.asking.lookup import Request, make_lookup
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.worker import Worker
from fleet_programs.executor.scope import Scope
from fleet_programs.jobs.keyed import distributed_tables, with_keys
from fleet_programs.jobs.trainer import Trainer
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Parameter, Variable
from fleet_programs.transpiler.passes.local_lookups import local_lookups, tables_as_parameters
from fleet_programs.transpiler.planning.plan import Plan

CHUNK_ROWS = 65536


def for_inference(
    program: Program, feeds: Iterable[str], targets: Sequence[str], scope: Scope, folder: str | PathLike[str]
) -> tuple[Program, Scope]:
    """A program of one process that leads to the targets, and a scope with all that it needs for that.

    Tables whose ids may be any number come as keys and rows, by way of a folder inside `folder`.
    """
    if SERVERS_NOTE in program.notes:
        program = local_lookups(program, Plan.from_note(program.notes[SERVERS_NOTE]))
    pruned = program.prune(targets, feeds)
    block = pruned.global_block()
    needed = {name for op in block.ops for name in op.input_names if block.var(name).persistable}
    trainer = Trainer.at(scope)
    keyed = set() if trainer is None else distributed_tables(pruned)
    local = gathered(scope, [block.var(name) for name in sorted(needed - keyed)])
    if trainer is None or not keyed:
        return program, local
    if not trainer.has_joined:
        raise _has_left(min(keyed))
    program, values = with_keys(program, trainer.worker, keyed, folder)
    local.tensors.update(values)
    return program, local


def _has_left(table: str) -> NotReadyError:
    return NotReadyError(
        f"the rows of {table!r} are on servers, and this worker has left them; save before fleet.stop_worker(), or run "
        "the startup program to join them again"
    )


def with_tables(program: Program) -> Program:
    """A trainer's program, with a parameter added for each of its tables."""
    other = program.clone()
    for parameter in tables_as_parameters(other, Plan.from_note(program.notes[SERVERS_NOTE])):
        other.global_block().vars.setdefault(parameter.name, parameter)
    return other


def gathered(scope: Scope, wanted: Sequence[Variable]) -> Scope:
    """A copy of the scope, in which wanted variables that are on servers have the values that they have there."""
    local = Scope()
    local.tensors.update(scope.tensors)
    trainer = Trainer.at(scope)
    if trainer is None:
        return local
    plan = trainer.plan
    tables = [var for var in wanted if var.name in plan.tables]
    for var in tables:
        if isinstance(var, Parameter) and var.is_distributed:
            raise NotSupportedError(
                f"parameter {var.name!r} is distributed: its ids may be any number, so it is no matrix; "
                "fleet.save_inference_model() and save_persistables() save its ids and rows"
            )
    if not trainer.has_joined:
        if tables:
            raise _has_left(tables[0].name)
        return local  # leaving, it has taken the servers' last parameters
    worker = trainer.worker
    worker.policy.flush()
    if any(var.name in plan.dense for var in wanted):
        local.tensors.update(_dense(worker, plan, scope))
    for var in tables:
        local.tensors[var.name] = _rows(worker, plan.tables.index(var.name), var)
    return local


def _dense(worker: Worker, plan: Plan, scope: Scope) -> dict[str, torch.Tensor]:
    groups = {block.parameter: block.group for block in plan.job.dense.blocks}
    copies = [(name, scope.tensors[name].detach().cpu().clone(), groups[name]) for name in plan.dense]
    flat = FlatParameters(copies, plan.job.dense.blocks)
    for server, (_, tensors) in enumerate(worker.client.pull((), dense=True, is_exact=True).results()):
        for group, tensor in enumerate(tensors):
            flat.load_values(server, group, tensor)
    return {name: value.clone() for name, value in flat.parameters()}


def _rows(worker: Worker, table: int, parameter: Variable) -> torch.Tensor:
    height, width = parameter.shape
    rows = torch.empty(height, width, dtype=torch.float32)
    for begin in range(0, height, CHUNK_ROWS):
        ids = torch.arange(begin, min(begin + CHUNK_ROWS, height))
        lookup = make_lookup(Request(table, (ids,)), width, worker.client.num_servers, counts=False)
        worker.client.pull([lookup], is_exact=True).finish(torch.device("cpu"), False)
        assert lookup.rows is not None
        rows[begin : begin + len(ids)] = lookup.rows.index_select(0, lookup.inverse)
    return rows
