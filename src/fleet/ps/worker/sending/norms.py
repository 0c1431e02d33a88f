"""The norm of a worker's gradients, which it scales before anything is sent, and whether they are finite.

In sync mode with several workers only the servers know the mean of a step, and each has a part of it: each tells the
norm of its part (`fleet.ps.server.clipping`), and a worker adds them up (`fleet.ps.worker.calling.step_norm`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from math import fsum, isfinite
from typing import TYPE_CHECKING

import torch

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.job.clip_factor import factor_of
from fleet.ps.worker.asking.lookup import Lookup

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker


def clip_here(worker: Worker, max_norm: float, groups: Collection[int], tables: Collection[int]) -> None:
    """Scale the gradients that the next step sends of some dense groups and tables, if their norm is larger."""
    factor = factor_of(max_norm, squared_norm_here(worker, groups, tables))
    if factor < 1.0:
        worker.multiply_gradients(factor, groups, tables)


def squared_norm_here(worker: Worker, groups: Collection[int], tables: Collection[int]) -> float:
    """The squared norm of this worker's gradients, without what will be skipped for a NaN or an Inf."""
    skips, found = worker.client.job.nonfinite == "skip", []
    if worker.flat is not None and groups:
        worker.flat.collect_gradients()
        for server in range(worker.client.job.num_servers):
            for group in groups:
                spans = worker.flat.spans(server, group)
                parts = [norm_of([worker.flat.gradient_buffer[begin:end]]) ** 2 for begin, end in spans]
                found += parts if all(map(isfinite, parts)) or not skips else []
    worker.heed_zeroed(tables)
    for table in tables:
        rows = rows_of([lookup for lookup in worker.used if lookup.table == table])
        if skips:
            rows = [one[one.isfinite().all(dim=1)] for one in rows]
        found.append(norm_of(rows) ** 2)
    return fsum(found)


def rows_of(lookups: Sequence[Lookup]) -> list[torch.Tensor]:
    """The gradients of one table's rows, each row once: those of several lookups are added."""
    found = [(lookup.route.grouped, grad) for lookup in lookups if (grad := lookup.row_gradients) is not None]
    if len(found) < 2:
        return [grad for _, grad in found]
    device = found[0][1].device
    keys, places = torch.unique(torch.cat([keys.to(device) for keys, _ in found]), return_inverse=True)
    grads = torch.cat([grad.to(torch.float32) for _, grad in found])
    return [torch.zeros(len(keys), grads.shape[1], device=device).index_add_(0, places, grads)]


def norm_of(tensors: Sequence[torch.Tensor], norm_type: float = 2.0) -> float:
    """The norm of some tensors together; 0 of none."""
    norms = [torch.linalg.vector_norm(one, norm_type, dtype=torch.float64) for one in tensors if one.numel()]
    return float(torch.linalg.vector_norm(torch.stack(norms), norm_type)) if norms else 0.0


def is_finite(values: torch.Tensor) -> bool:
    """Whether none of the values is a NaN or an Inf."""
    if values.device.type == "cpu":
        return _native.all_finite(values)
    # Takes few launches: the largest value is a NaN if any is one.
    return not values.numel() or math.isfinite(float(values.abs().amax()))


def nonfinite_error(what: str, worker: int, step: int) -> UsageError:
    """The error of a step that is not sent because its gradients are not finite."""
    return UsageError(
        f"{what}: the gradients of worker {worker}, step {step} hold a NaN or an Inf; "
        "nothing was sent. Set strategy.nonfinite_gradients = 'skip' to leave such rows out"
    )
