"""Several pushes made one: gradients of equal keys are added, those of dense parameters too.

With plain SGD the sum is what the pushes would have done one after the other. Every other rule gets the mean: it scales
its step by the size of past gradients, which one summed push would inflate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from fleet.ps.job.spec import JobSpec
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.sending.gradients import Gradients, TablePush

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensor


def merged(pushes: Sequence[Gradients], job: JobSpec) -> Gradients:
    """One push instead of several."""
    if len(pushes) == 1:
        return pushes[0]
    last = pushes[-1]
    tables = [
        _merge_tables(
            [part for push in pushes for part in push.tables if part.table == index],
            sum(push.stepped is None or index in push.stepped for push in pushes),  # not pushes of another optimizer
            job,
        )
        for index in sorted({part.table for push in pushes for part in push.tables})
    ]
    with_dense = [push for push in pushes if push.dense]
    lrs = {group: lr for push in with_dense for group, lr in push.lrs.items()}
    return Gradients(
        step=last.step,
        tables=tables,
        dense=_merge_dense(with_dense, sorted(lrs), job) if with_dense else [],
        lrs={group: lrs[group] for group in sorted(lrs)},
        pulled_version=min(push.pulled_version for push in pushes),
        steps=last.steps,
        position=last.position,
        absent=_absent(with_dense, job),
    )


def _factor(rule: str, num_pushes: int) -> float:
    return 1.0 if rule in ("sgd", "sum") else 1.0 / num_pushes


def _merge_tables(parts: Sequence[TablePush], num_pushes: int, job: JobSpec) -> TablePush:
    spec = job.tables[parts[0].table]
    num_servers = len(parts[0].ends) - 1
    found = route(torch.cat([part.keys for part in parts]), num_servers)
    where = found.inverse.reshape(-1)

    def summed(tensors: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
        present = [tensor for tensor in tensors if tensor is not None]
        if not present:
            return None
        values = torch.cat(present)
        zeros = torch.zeros(len(found.grouped), *values.shape[1:], dtype=torch.float32)
        return zeros.index_add_(0, where, values.float())

    has_shows = any(part.shows is not None for part in parts)
    counts = summed([part.counts for part in parts])
    grads = summed([part.grads for part in parts])
    assert grads is not None
    return TablePush(
        table=parts[0].table,
        lr=parts[-1].lr,
        keys=found.grouped,
        grads=grads.mul_(_factor(spec.rule.name, num_pushes)),
        ends=found.offsets.tolist(),
        counts=None if counts is None else counts.to(torch.uint32),
        shows=summed([_shows(part) for part in parts]) if has_shows else None,
        clicks=summed([_clicks(part) for part in parts]) if has_shows else None,
    )


def _shows(part: TablePush) -> torch.Tensor:
    """The counts of a push that has none: how often each key occurred."""
    if part.shows is not None:
        return part.shows
    return torch.ones(len(part.keys), dtype=torch.float32) if part.counts is None else part.counts.float()


def _clicks(part: TablePush) -> torch.Tensor:
    return torch.zeros(len(part.keys), dtype=torch.float32) if part.clicks is None else part.clicks


def _absent(pushes: Sequence[Gradients], job: JobSpec) -> tuple[int, ...]:
    """The parameters that are absent from every push that has their group."""
    group_of = {block.parameter: block.group for block in job.dense.blocks} if any(one.absent for one in pushes) else {}
    names = [name for name, _ in job.dense.shapes]
    return tuple(
        parameter
        for parameter in sorted({parameter for push in pushes for parameter in push.absent})
        if all(parameter in push.absent or group_of[names[parameter]] not in push.lrs for push in pushes)
    )


def _merge_dense(pushes: Sequence[Gradients], groups: Sequence[int], job: JobSpec) -> list[list[Tensor]]:
    """For each server, one buffer per group, of the pushes that have it."""
    merged_servers: list[list[Tensor]] = [[] for _ in pushes[0].dense]
    for group in groups:
        own = [(push, list(push.lrs).index(group)) for push in pushes if group in push.lrs]
        factor = np.float32(_factor(job.dense.groups[group].name, len(own)))
        for server, buffers in enumerate(merged_servers):
            total = np.frombuffer(own[0][0].dense[server][own[0][1]], np.float32).copy()
            for push, place in own[1:]:
                total += np.frombuffer(push.dense[server][place], np.float32)
            total *= factor
            buffers.append(total)
    return merged_servers
