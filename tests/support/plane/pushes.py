"""Pushes as a server has them once it has read them, made of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.ps.held.requests import PushedUpdate, TableUpdate, read_push, reader_of, update_of
from fleet.ps.job.spec import JobSpec
from fleet.ps.proto import ps_pb2


def pushed(
    job: JobSpec,
    worker: int,
    step: int,
    parts: Sequence[TableUpdate],
    dense: Mapping[int, NDArray[np.float32]],
    lrs: Mapping[int, float] | None = None,
) -> PushedUpdate:
    """What server 0 of a job reads of some gradients."""
    header = ps_pb2.PushRequest.Header(
        caller=ps_pb2.Caller(worker=worker),
        step=step,
        tables=[
            ps_pb2.PushRequest.Table(
                table=part.table,
                lr=part.lr,
                has_counts=part.counts is not None,
                has_clicks=part.shows is not None,
            )
            for part in parts
        ],
        dense_groups=dense,
        dense_lrs=[1.0 if lrs is None else lrs[group] for group in dense],
    )
    tensors: list[Any] = [column for part in parts for column in part.columns() if column is not None]
    return update_of(header, read_push(reader_of(job, 0), header, [*tensors, *dense.values()], job))
