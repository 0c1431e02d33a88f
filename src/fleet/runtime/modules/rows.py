"""`fleet.load_rows`: rows of a table are written by value, while nobody trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from fleet.errors import UsageError, UsageTypeError
from fleet.nn.sparse import SparseModule
from fleet.ps.worker.asking.given_rows import given_rows, write_rows
from fleet.runtime.saved.once_for_all import once_for_all

if TYPE_CHECKING:
    from fleet.collective.world.util import Util
    from fleet.ps.worker.worker import Worker
    from fleet.roles import Identity


def load_rows(worker: Worker, table: str | nn.Module, keys: Any, values: Any, who: Identity, util: Util) -> int:
    """Write worker 0's rows into a table; returns how many."""
    index, padding = _find(worker, table)
    spec = worker.client.job.tables[index]
    rows = given_rows(f"fleet.load_rows({spec.name!r})", keys, values, width=spec.width, padding=padding)

    def act() -> int:
        write_rows(worker.client, index, rows)
        worker.forget_rows(index)
        return len(rows.keys)

    def check() -> None:
        _refuse_untimely(worker, spec.name)

    return once_for_all(worker, "load_rows", who, util, act, lambda: worker.forget_rows(index), check)


def _find(worker: Worker, table: str | nn.Module) -> tuple[int, int | None]:
    """The index of a table that is given by its name, or by the module that has it, and the module's padding."""
    names = [spec.name for spec in worker.client.job.tables]
    if isinstance(table, str):
        if table not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise UsageError(f"fleet.load_rows(): there is no table {table!r}; the job declared {known}")
        return names.index(table), None
    if not isinstance(table, SparseModule):
        raise UsageTypeError(
            f"fleet.load_rows() takes the name of a table or a module of fleet.nn, got {type(table).__name__}"
        )
    if table.is_held or table.worker is not worker:
        raise UsageError(
            f"fleet.load_rows(): this {type(table).__name__} is not of the model that was given to "
            "fleet.distributed_model()"
        )
    if len(table.tables) != 1:
        own = ", ".join(repr(names[index]) for index in table.tables)
        raise UsageError(f"fleet.load_rows(): this {type(table).__name__} has the tables {own}; give the name of one")
    return table.tables[0], getattr(table, "padding_idx", None)


def _refuse_untimely(worker: Worker, name: str) -> None:
    """UsageError where rows cannot be replaced now."""
    if worker.is_mid_step:
        raise UsageError(
            f"fleet.load_rows({name!r}) comes between backward() and optimizer.step(), which would train rows that are "
            "no more; call it after the step"
        )
    if worker.policy.trains_locally and worker.done.num_updates:
        raise UsageError(
            f"fleet.load_rows({name!r}): in geo mode workers train copies of the rows, with state of their own; call "
            "it before the first step"
        )
