"""An inference model of a distributed program: rows come home from the servers, then it is one process's."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch

from fleet.errors import NotReadyError, NotSupportedError
from fleet.ps.lookup import Request
from fleet.ps.worker import Worker
from fleet.runtime.programs.job import ProgramJob
from fleet.static import io
from fleet.static.executor.executor import Executor
from fleet.static.executor.scope import Scope, global_scope, scope_guard
from fleet.static.program import Program
from fleet.static.variable import Parameter, Variable

CHUNK_ROWS = 65536


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
    scope = Scope()
    scope.tensors.update(global_scope().tensors)
    plan = job.plan
    if plan is not None:
        worker = job.trainer("fleet.save_inference_model()").worker
        worker.mode.flush()
        worker.mode.refresh()
        pruned = program.prune(target_vars, feeded_var_names)
        needed = {name for op in pruned.global_block().ops for name in op.input_names}
        for index, name in enumerate(plan.tables):
            if name in needed:
                scope.tensors[name] = whole_table(worker, index, program.global_block().var(name))
    with scope_guard(scope):
        made: list[Any] = io.save_inference_model(
            dirname, feeded_var_names, target_vars, executor, program, export_for_deployment=export_for_deployment
        )
    return made


def whole_table(worker: Worker, table: int, parameter: Variable) -> torch.Tensor:
    """Every row of a parameter that lives on servers."""
    if isinstance(parameter, Parameter) and parameter.is_distributed:
        raise NotSupportedError(
            f"parameter {parameter.name!r} is distributed: its ids may be any number, so it is no matrix; "
            "fleet.save_inference_model(dirname) writes the ids and rows of every table as numpy files"
        )
    height, width = parameter.shape
    rows = torch.empty(height, width)
    for begin in range(0, height, CHUNK_ROWS):
        ids = torch.arange(begin, min(begin + CHUNK_ROWS, height))
        (lookup,) = worker.lookups([Request(table, (ids,))], with_grad=False)
        assert lookup.rows is not None
        rows[begin : begin + len(ids)] = lookup.rows.cpu().index_select(0, lookup.inverse.cpu())
    return rows
