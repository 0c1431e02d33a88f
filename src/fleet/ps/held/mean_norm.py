"""The norm of a server's part of the mean gradient of a step."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.ps.job.spec import JobSpec

if TYPE_CHECKING:
    from fleet.ps.held.requests import PushedUpdate

_SLICE = 1 << 18


def mean_squared_norm(updates: Sequence[PushedUpdate], job: JobSpec, native: _native.PlaneHoldings) -> float:
    """The squared norm of a server's part of the mean of some updates; what will be skipped has no share in it.

    It is summed in one order, whatever threads there are: a server that is started again finds the same.
    """
    skips, found = job.nonfinite == "skip", []
    for index in sorted({part.table for update in updates for part in update.tables}):
        parts = [part.columns() for update in updates for part in update.tables if part.table == index]
        rows: NDArray[np.float32] = np.asarray(_native.sum_pushes(parts, job.tables[index].width)[1])
        if skips:
            rows = rows[np.isfinite(rows).all(axis=1)]
        found.append(_squared(rows) / len(updates) ** 2)
    for group, _, mean, _ in native.means([update.push for update in updates if update.push], len(updates), 1.0):
        if job.dense.groups[group].name != "average":
            squared = _squared(mean)
            found.append(squared if isfinite(squared) or not skips else 0.0)
    return fsum(found)


def _squared(values: NDArray[np.float32]) -> float:
    flat = values.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return (
            fsum(
                float(np.square(flat[begin : begin + _SLICE], dtype=np.float64).sum())
                for begin in range(0, len(flat), _SLICE)
            )
            if np.isfinite(flat).all()
            else inf
        )
