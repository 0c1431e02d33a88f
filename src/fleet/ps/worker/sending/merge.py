"""Several pushes made one: gradients of equal keys are added, those of dense parameters too.

With plain SGD the sum is what the pushes would have done one after the other. Every other rule gets the mean: it scales
its step by the size of past gradients, which one summed push would inflate. Where learning rates differ, as under a
schedule, the merged push has their mean, and each gradient counts as its own rate is to that one: so SGD does what it
would have done, and every other rule makes one step whose size is the mean of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import fsum
from typing import TYPE_CHECKING

import numpy as np
import torch

from fleet import _native
from fleet.ps.job.spec import JobSpec
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.ps.worker.sending.norms import is_finite

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensor


Rates = tuple[float, list[float]]
"""The learning rate of a merged push, and by how much the gradients of each push count."""


def merged(pushes: Sequence[Gradients], job: JobSpec) -> list[Gradients]:
    """One push instead of several.

    Where servers leave out what is a NaN or an Inf, a push that has one goes by itself, in its turn: they would leave
    out the others with it.
    """
    if len(pushes) == 1 or job.nonfinite != "skip":
        return [_merge(pushes, job)]
    runs = [(is_good, list(run)) for is_good, run in groupby(pushes, _is_finite)]
    return [one for is_good, run in runs for one in ([_merge(run, job)] if is_good else run)]


def _is_finite(push: Gradients) -> bool:
    return all(is_finite(part.grads.float()) for part in push.tables) and all(
        _native.all_finite(np.frombuffer(buffer, np.float32)) for buffers in push.dense for buffer in buffers
    )


def _merge(pushes: Sequence[Gradients], job: JobSpec) -> Gradients:
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
    rates = {
        group: _rates(job.dense.groups[group].name, [push.lrs[group] for push in with_dense if group in push.lrs])
        for group in sorted({group for push in with_dense for group in push.lrs})
    }
    return Gradients(
        step=last.step,
        tables=tables,
        dense=_merge_dense(with_dense, rates, job) if with_dense else [],
        lrs={group: lr for group, (lr, _) in rates.items()},
        pulled_version=min(push.pulled_version for push in pushes),
        steps=last.steps,
        position=last.position,
        absent=_absent(with_dense, job),
    )


def _rates(rule: str, lrs: Sequence[float]) -> Rates:
    """Where the rates are equal, or the rule knows none, each push counts as it is, to the bit."""
    if len(set(lrs)) == 1 or rule == "sum":
        return lrs[0], [1.0] * len(lrs)
    lr = fsum(lrs) / len(lrs)
    return lr, [one / lr for one in lrs]


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
    lr, weights = _rates(spec.rule.name, [part.lr for part in parts])
    grads = summed(
        [part.grads if weight == 1 else part.grads * weight for part, weight in zip(parts, weights, strict=True)]
    )
    assert grads is not None
    return TablePush(
        table=parts[0].table,
        lr=lr,
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


def _merge_dense(pushes: Sequence[Gradients], rates: Mapping[int, Rates], job: JobSpec) -> list[list[Tensor]]:
    """For each server, one buffer per group, of the pushes that have it."""
    merged_servers: list[list[Tensor]] = [[] for _ in pushes[0].dense]
    for group, (_, weights) in rates.items():
        own = [(push, list(push.lrs).index(group)) for push in pushes if group in push.lrs]
        factor = np.float32(_factor(job.dense.groups[group].name, len(own)))
        for server, buffers in enumerate(merged_servers):
            parts = [np.frombuffer(push.dense[server][place], np.float32) for push, place in own]
            total = parts[0] * np.float32(weights[0])
            for part, weight in zip(parts[1:], weights[1:], strict=True):
                total += part if weight == 1 else part * np.float32(weight)
            total *= factor
            buffers.append(total)
    return merged_servers
