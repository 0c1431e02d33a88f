"""A worker's gradients in the formats of its job, and what of them has not been sent.

A push is encoded once, before the first server gets it: whoever is sent it again gets the same bytes. Of dense
gradients the worker keeps what rounding, or the choice of the largest, has left out, and adds it to the next ones. Of
rows it keeps nothing: there may be more of them than fit into its memory, and most come back seldom, so they are
rounded without a bias instead (docs/adr/0028-fewer-bytes.md).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.spec import JobSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.formats import FLOAT32, Floats, decoded_dense, number_of
from fleet.ps.wire.messages import Tensor
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.strategy.parameter_server import WireConfigs

_WORKER = 0x9E3779B97F4A7C15  # sets the seeds of workers far apart: no two round alike
_MASK = (1 << 64) - 1


def with_wire(job: JobSpec, configs: WireConfigs) -> JobSpec:
    """A job whose tables and dense parameters travel as a strategy says, where they do not say otherwise."""
    tables = tuple(
        replace(
            table,
            row_format=table.row_format or configs.rows,
            gradient_format=table.gradient_format or configs.gradients,
        )
        for table in job.tables
    )
    dense = job.dense
    if dense.groups:
        dense = replace(
            dense,
            value_format=configs.dense,
            gradient_format=configs.dense_gradients,
            topk=configs.dense_topk,
        )
    return replace(job, tables=tables, dense=dense)


def refuse_dense_wire(configs: WireConfigs) -> None:
    """UsageError if formats are chosen for dense parameters, in a job whose servers have none of them."""
    for name in ("dense", "dense_gradients", "dense_topk"):
        value = getattr(configs, name)
        if value not in ("float32", None):
            raise UsageError(
                f"strategy.wire_configs.{name} = {value!r}: with strategy.dense = 'allreduce' dense parameters stay in "
                "the workers; leave it out, or use strategy.dense = 'server'"
            )


@dataclass(frozen=True)
class EncodedDense:
    """The dense gradients of one push as they travel."""

    tensors: Sequence[Sequence[Tensor]]
    """For each server, the tensors of all pushed groups."""
    forms: Sequence[Sequence[ps_pb2.PushRequest.Dense]]
    """For each server, how each group travels."""
    sizes: Sequence[Sequence[int]]

    def values(self) -> list[list[Tensor]]:
        """What the servers will read: for each one buffer for each group."""
        return [
            list(decoded_dense(forms, tensors, sizes))
            for forms, tensors, sizes in zip(self.forms, self.tensors, self.sizes, strict=True)
        ]


class Encoder:
    """Encodes one worker's gradients. Used from one thread at a time."""

    def __init__(self, job: JobSpec, worker: int) -> None:
        self._job = job
        self._seed = (worker + 1) * _WORKER & _MASK
        self._residuals: dict[tuple[int, int], Floats] = {}
        """By server and dense group: what has not been sent."""

    def forget(self) -> None:
        """Drop what has not been sent: the servers were given another state."""
        self._residuals.clear()

    def encode(self, gradients: Gradients) -> Gradients:
        """The gradients in the formats of the job; what is encoded already stays as it is."""
        if gradients.encoded is not None:
            return gradients
        tables = [self._table(part, gradients.steps) for part in gradients.tables]
        return replace(gradients, tables=tables, encoded=self._all_dense(gradients))

    def _table(self, part: TablePush, steps: int) -> TablePush:
        number = number_of(self._job.tables[part.table].gradient_format)
        if number == FLOAT32 or part.format != FLOAT32:
            return part
        seed = self._seed + part.table & _MASK
        data = _native.encode_rows(part.grads, number, part.keys, seed, steps & 0xFFFFFFFF)
        return replace(part, grads=torch.from_numpy(data), format=number)

    def _all_dense(self, gradients: Gradients) -> EncodedDense | None:
        spec, groups = self._job.dense, list(gradients.lrs)
        if not gradients.dense or (spec.gradient_format == "float32" and spec.topk is None):
            return None
        tensors: list[list[Tensor]] = []
        forms: list[list[ps_pb2.PushRequest.Dense]] = []
        sizes: list[list[int]] = []
        for server, buffers in enumerate(gradients.dense):
            both = [
                self._dense(spec, server, group, np.frombuffer(buffer, np.float32).reshape(-1), gradients.absent)
                for group, buffer in zip(groups, buffers, strict=True)
            ]
            tensors.append([tensor for parts, _ in both for tensor in parts])
            forms.append([form for _, form in both])
            sizes.append([spec.size(server, group) for group in groups])
        return EncodedDense(tensors, forms, sizes)

    def _dense(
        self, spec: DenseSpec, server: int, group: int, values: Floats, absent: Collection[int]
    ) -> tuple[list[Tensor], ps_pb2.PushRequest.Dense]:
        # Running statistics are no gradients; and a NaN that servers will leave out must not stay in the residual.
        is_left_out = self._job.nonfinite == "skip" and not _native.all_finite(values)
        if spec.groups[group].name == "average" or is_left_out:
            return [values], ps_pb2.PushRequest.Dense()
        residual = self._residual(server, group, len(values))
        with _kept(residual, _spans(spec, server, group, absent)):
            return self._encoded(spec, group, values, residual)

    def _encoded(
        self, spec: DenseSpec, group: int, values: Floats, residual: Floats
    ) -> tuple[list[Tensor], ps_pb2.PushRequest.Dense]:
        number = number_of(spec.gradient_format)
        if spec.topk is None:
            form = ps_pb2.PushRequest.Dense(format=number)  # type: ignore[arg-type]
            return [_native.encode_vector(values, residual, number)], form
        places, largest = _native.take_largest(values, residual, ceil(spec.topk * len(values)), seed=group)
        left = np.zeros_like(largest)
        data = _native.encode_vector(largest, left, number)
        residual[places] = left
        form = ps_pb2.PushRequest.Dense(format=number, is_sparse=True)  # type: ignore[arg-type]
        return [places, data], form

    def _residual(self, server: int, group: int, size: int) -> Floats:
        found = self._residuals.get((server, group))
        if found is None:
            found = self._residuals[server, group] = np.zeros(size, np.float32)
        return found


def _spans(spec: DenseSpec, server: int, group: int, absent: Collection[int]) -> list[slice]:
    """Where parameters that are absent from a push lie in what a server has of a group."""
    found, at = [], 0
    for parameter, size in spec.parts(server, group) if absent else ():
        if parameter in absent:
            found.append(slice(at, at + size))
        at += size
    return found


@contextmanager
def _kept(residual: Floats, spans: Sequence[slice]) -> Iterator[None]:
    """Inside, these spans are zeros: servers leave absent parameters alone, so their residuals stay for later."""
    saved = [residual[span].copy() for span in spans]
    for span in spans:
        residual[span] = 0.0
    try:
        yield
    finally:
        for span, values in zip(spans, saved, strict=True):
            residual[span] = values
