"""Whether updates can be applied, all of them: asked before the first row changes, for nothing takes a row back.

What is left to fail afterwards is memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet.ps.held.dense import DenseGroup
from fleet.ps.held.update import PushedUpdate
from fleet.ps.job.spec import JobSpec


class NoRoomError(CommunicationError):
    """Neither memory nor disk has room for more rows; the push may be sent again."""

    retryable = True


_REMEDY = "Set strategy.nonfinite_gradients = 'skip' to leave such rows and groups out"

SAFE = float(np.finfo(np.float32).max) / 16
"""Sums of magnitudes up to this fit a float32, however they are rounded on the way."""


def check_applicable(
    updates: Sequence[PushedUpdate],
    job: JobSpec,
    tables: Sequence[_native.Table],
    groups: Sequence[DenseGroup],
    *,
    is_started: bool,
) -> None:
    """UsageError or NotReadyError if the mean of the updates of one step cannot be applied, in any part of it."""
    check_rates(updates, job)
    if not is_started and any(update.dense for update in updates):
        raise NotReadyError("dense parameters have no values yet; worker 0 sends them in fleet.init_worker()")
    for index in sorted({part.table for update in updates for part in update.tables}):
        _check_table(tables[index], index, updates, job)
    for index in sorted({group for update in updates for group in update.dense}):
        _check_dense(groups[index].size, index, updates, job)


def check_rates(updates: Sequence[PushedUpdate], job: JobSpec) -> None:
    """UsageError if a table or a dense group is to have two learning rates in one step, which names both workers.

    Rates that float32 cannot tell apart are one: workers may compute them on different machines.
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
    """UsageError if workers have stepped different optimizers, which names two; who skips a step pushes nothing."""
    stepped = [update for update in updates if update.has_gradients]
    for other in stepped[1:]:
        if other.groups != stepped[0].groups:
            raise UsageError(
                f"step {other.step}: worker {stepped[0].worker} has stepped another optimizer than worker "
                f"{other.worker}; nothing was applied. Every worker must step its optimizers in the same order"
            )


def _rates(update: PushedUpdate) -> Iterable[tuple[str, int, float]]:
    yield from (("table", part.table, part.lr) for part in update.tables)
    yield from (("dense", group, lr) for group, lr in update.lrs.items())


def _check_table(table: _native.Table, index: int, updates: Sequence[PushedUpdate], job: JobSpec) -> None:
    parts = [part for update in updates for part in update.tables if part.table == index]
    step = updates[0].step
    if table.has_disk:
        _check_room(table)
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


def _check_room(table: _native.Table) -> None:
    try:
        table.refuse_if_full()
    except OSError as error:
        raise NoRoomError(error.strerror) from None


def _check_dense(size: int, index: int, updates: Sequence[PushedUpdate], job: JobSpec) -> None:
    own = [update.dense[index] for update in updates if index in update.dense]
    for grads in own:
        if grads.shape != (size,):
            raise UsageError(f"dense group {index}: {grads.shape} gradients for {size} values; nothing was applied")
    if job.nonfinite == "skip" or sum(map(_native.largest, own)) <= SAFE:
        return
    if not _native.all_finite(mean_of(own, len(updates))):
        raise UsageError(
            f"dense parameters, group {index}: the gradients of step {updates[0].step} hold a NaN or an Inf, or add up "
            f"to one; nothing was applied. {_REMEDY}"
        )


def mean_of(grads: Sequence[NDArray[np.float32]], num_updates: int) -> NDArray[np.float32]:
    """The sum of gradients in their order, divided by the number of updates; of a single update its own array."""
    if num_updates == 1:
        return grads[0]
    total = grads[0].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for other in grads[1:]:
            total += other
        total *= np.float32(1.0 / num_updates)
    return total
