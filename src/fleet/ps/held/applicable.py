"""Whether updates can be applied, all of them: asked before the first row changes, for nothing takes a row back.

What is left to fail afterwards is memory.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.checkpoint.files.files import FULL
from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet.ps.held.requests import PushedUpdate
from fleet.ps.job.spec import JobSpec


class NoRoomError(CommunicationError):
    """Neither memory nor disk has room for more rows; the push may be sent again."""

    retryable = True


def raise_if_full(what: str, error: OSError) -> None:
    """NoRoomError if a disk, or what this process may use of it, is full: that passes."""
    if error.errno in FULL:
        raise NoRoomError(f"{what}: {error.strerror}; make room on that disk") from None


_REMEDY = "Set strategy.nonfinite_gradients = 'skip' to leave such rows and groups out"

Mean = tuple[int, float, NDArray[np.float32], list[int]]
"""A dense group, its learning rate, the mean of its gradients, the parts that sit the step out."""


def check_applicable(
    updates: Sequence[PushedUpdate],
    job: JobSpec,
    tables: Sequence[_native.Table],
    means: Callable[[], Sequence[Mean]],
    *,
    is_started: bool,
) -> None:
    """UsageError or NotReadyError if the mean of the updates of one step cannot be applied, in any part of it.

    `means` gives the mean of each dense group.
    """
    check_rates(updates, job)
    if not is_started:
        raise NotReadyError("dense parameters have no values yet; worker 0 sends them in fleet.init_worker()")
    for index in sorted({part.table for update in updates for part in update.tables}):
        _check_table(tables[index], index, updates, job)
    if job.nonfinite == "skip":
        return
    for group, _, mean, _ in means():
        if not _native.all_finite(mean):
            raise UsageError(
                f"dense parameters, group {group}: the gradients of step {updates[0].step} hold a NaN or an Inf, or "
                f"add up to one; nothing was applied. {_REMEDY}"
            )


def check_rates(updates: Sequence[PushedUpdate], job: JobSpec) -> None:
    """UsageError that names both workers if a table or a dense group would have two learning rates in one step.

    Rates that float32 cannot tell apart are equal: workers may compute them on different machines.
    """
    rates: dict[tuple[str, int], tuple[int, float]] = {}
    for update in updates:
        for kind, index, lr in _rates(update):
            worker, other = rates.setdefault((kind, index), (update.worker, lr))
            if not math.isclose(lr, other, rel_tol=1e-6):
                what = f"table {job.tables[index].name!r}" if kind == "table" else f"dense group {index}"
                raise UsageError(
                    f"step {update.step}, {what}: the learning rate of worker {worker} is {other}, that of worker "
                    f"{update.worker} {lr}; nothing was applied. Every worker must follow the same schedule"
                )


def check_optimizers(updates: Sequence[PushedUpdate]) -> None:
    """UsageError that names two workers if they stepped different optimizers; one that skips a step pushes nothing."""
    stepped = [update for update in updates if update.has_gradients]
    for other in stepped[1:]:
        if other.groups != stepped[0].groups:
            raise UsageError(
                f"step {other.step}: worker {stepped[0].worker} has stepped another optimizer than worker "
                f"{other.worker}; nothing was applied. Every worker must step its optimizers in the same order"
            )


def _rates(update: PushedUpdate) -> Iterable[tuple[str, int, float]]:
    yield from (("table", part.table, part.lr) for part in update.tables)
    yield from (("dense", part.group, part.lr) for part in update.dense)


def _check_table(table: _native.Table, index: int, updates: Sequence[PushedUpdate], job: JobSpec) -> None:
    parts = [part for update in updates for part in update.tables if part.table == index]
    step = updates[0].step
    if table.has_disk:
        check_room(table)
    shown = (values for part in parts for values in (part.shows, part.clicks) if values is not None)
    if not all(map(_native.all_finite, shown)):
        raise UsageError(
            f"table {table.name!r}: the shows or clicks of step {step} hold a NaN or an Inf; nothing was applied"
        )
    if job.nonfinite == "skip":
        return
    try:
        table.check_all(
            [part.columns() for part in parts],
            step=step & 0xFFFFFFFF,
            lr=parts[0].lr,
            scale=1.0 / len(updates),
        )
    except ValueError as error:
        raise UsageError(f"{error}. {_REMEDY}") from None


def check_room(table: _native.Table) -> None:
    """NoRoomError if a push to a table with rows on a disk would find no room."""
    try:
        table.refuse_if_full()
    except OSError as error:
        raise NoRoomError(error.strerror) from None
