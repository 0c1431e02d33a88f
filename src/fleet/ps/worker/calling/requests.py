"""Pulls and pushes: the header, which all servers get alike, and one call to each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.formats import number_of
from fleet.ps.wire.voices import voice_of

if TYPE_CHECKING:
    from fleet.ps.job.spec import JobSpec
    from fleet.ps.wire.messages import Tensors
    from fleet.ps.worker.asking.lookup import Lookup
    from fleet.ps.worker.calling.place import Place
    from fleet.ps.worker.sending.gradients import Gradients

Header = TypeVar("Header", ps_pb2.PullRequest.Header, ps_pb2.PushRequest.Header)


def push_header(gradients: Gradients, *, row_formats: Sequence[int], **more: Any) -> ps_pb2.PushRequest.Header:
    """What gradients say of themselves, and `more` fields. `row_formats`: those of rows that are wanted back."""
    return ps_pb2.PushRequest.Header(
        step=gradients.step,
        pulled_version=gradients.pulled_version,
        tables=[
            ps_pb2.PushRequest.Table(
                table=part.table,
                lr=part.lr,
                has_counts=part.counts is not None,
                has_clicks=part.shows is not None,
                format=part.format,  # type: ignore[arg-type]
                row_format=number,  # type: ignore[arg-type]
            )
            for part, number in zip(gradients.tables, row_formats or repeat(0))  # noqa: B905
        ],
        dense_lrs=gradients.lrs.values() if gradients.dense else [],
        steps=gradients.steps,
        is_pass=gradients.is_pass,
        absent=gradients.absent,
        **more,
    )


def row_formats_of(job: JobSpec, tables: Sequence[int]) -> list[int]:
    """How rows of some tables travel to a worker; empty if all are float32."""
    found = [number_of(job.tables[table].row_format) for table in tables]
    return found if any(found) else []


def to_each(common: Header, place: Place) -> list[Header]:
    """A header that all servers get alike, for each of them."""
    made = []
    for instance in place.instances:
        header = type(common)()
        header.CopyFrom(common)
        header.caller.instance = instance
        made.append(header)
    return made


def only_read(lookups: Sequence[Lookup]) -> list[bool]:
    """Which of the lookups only read their rows; empty if none does."""
    found = [lookup.request.only_read for lookup in lookups]
    return found if any(found) else []


def calls_to(
    place: Place,
    method: str,
    messages: Sequence[tuple[Any, Tensors]],
    timeout_s: float,
    servers: Sequence[int] | None = None,
    *,
    waits_for_others: bool,
) -> list[ServerCall]:
    """One call to each of some servers, or to all; `messages` has one for each of all."""
    patience_s, moved, calls = rpc_timeout_s(), place.moved, []
    for server in range(len(messages)) if servers is None else servers:
        header, tensors = messages[server]
        transport = place.transports[server]
        voice = voice_of(transport, header.caller, method, waits_for_others=waits_for_others)
        calls.append(ServerCall(transport, method, header, tensors, timeout_s, patience_s, voice, moved))
    return calls
