"""Pulls and pushes on their way out: a header that all servers get alike, and one call to each of them.

Each may be sent several times: when other servers have taken the place of these, it is cut anew for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fleet.ps.job.patience import rpc_timeout_s, step_timeout_s
from fleet.ps.job.spec import JobSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.formats import number_of
from fleet.ps.wire.messages import Tensor, Tensors
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.calling.pending import Sent
from fleet.ps.worker.calling.server_set import ServerSet
from fleet.ps.worker.sending.gradients import Gradients

if TYPE_CHECKING:
    import torch

    from fleet.ps.worker.calling.client import Client

Header = TypeVar("Header", ps_pb2.PullRequest.Header, ps_pb2.PushRequest.Header)


GRACE_S = 10.0
"""How much longer a caller waits than the server itself may before it answers."""


def send_pull(
    client: Client,
    lookups: Sequence[Lookup],
    version: int,
    server_set: ServerSet,
    *,
    dense: bool,
    kept: bool,
    is_exact: bool,
) -> Sent:
    """Ask every server of a set for rows, dense parameters and kept tensors.

    They answer when they have reached `version`. `is_exact`: floats travel as float32, whatever the job's formats are.
    """
    # Only these may have to wait for other workers.
    timeout_s = step_timeout_s() if version or dense or kept else rpc_timeout_s()
    job, tables = client.job, [lookup.table for lookup in lookups]
    formats = [] if is_exact else row_formats_of(job, tables)
    dense_format = number_of(job.dense.value_format) if dense and not is_exact else 0
    keys = [server_set.keys(lookup.route) for lookup in lookups]
    common = ps_pb2.PullRequest.Header(
        caller=client.caller_at(server_set, 0),
        version=version,
        tables=tables,
        dense=dense,
        kept=kept,
        timeout_ms=int(timeout_s * 1000),
        only_read=only_read(lookups),
        formats=formats,  # type: ignore[arg-type]
        dense_format=dense_format,  # type: ignore[arg-type]
    )
    headers = to_each(common, server_set)
    messages = [(header, [pieces[server] for pieces, _ in keys]) for server, header in enumerate(headers)]
    servers, limit_s = range(len(messages)), timeout_s + GRACE_S
    calls = calls_to(server_set, "Pull", messages, limit_s, servers, waits_for_others=bool(version or dense))
    return Sent(server_set, calls, _rows_of(lookups, keys), formats=formats, dense_format=dense_format)


def send_push(
    client: Client,
    gradients: Gradients,
    sequence: int,
    lookups: Sequence[Lookup],
    server_set: ServerSet,
    *,
    write_down: Callable[[Sequence[tuple[Any, Tensors]]], None],
    want_dense: bool,
    is_delta: bool,
    is_awaited: bool,
) -> Sent:
    """Push to every server of a set; the pull of `lookups` rides along.

    `gradients` are encoded already: whoever gets them again gets the same bytes. Servers know a push that they have by
    its `sequence`. `write_down` keeps one to several servers for the worker's next life, before the first gets it.
    `is_awaited`: servers answer when every worker has pushed the step; where the first decides with whose pushes it is
    done, the others are called after it.
    """
    job = client.job
    formats = row_formats_of(job, [lookup.table for lookup in lookups])
    dense_format = number_of(job.dense.value_format) if want_dense else 0
    timeout_s = step_timeout_s() if is_awaited else 0.0
    limit_s = timeout_s + max(GRACE_S, rpc_timeout_s()) if is_awaited else rpc_timeout_s()
    is_partial = bool(gradients.dense) and len(gradients.lrs) < len(job.dense.groups)
    keys = [server_set.keys(lookup.route) for lookup in lookups]
    tables = [
        ps_pb2.PushRequest.Table(
            table=part.table,
            lr=part.lr,
            has_counts=part.counts is not None,
            has_clicks=part.shows is not None,
            format=part.format,  # type: ignore[arg-type]
        )
        for part in gradients.tables
    ]
    common = ps_pb2.PushRequest.Header(
        caller=client.caller_at(server_set, 0),
        sequence=sequence,
        step=gradients.step,
        pulled_version=gradients.pulled_version,
        tables=tables,
        dense_lrs=gradients.lrs.values() if gradients.dense else [],
        dense_groups=gradients.lrs if is_partial else [],
        steps=gradients.steps,
        is_pass=gradients.is_pass,
        absent=gradients.absent,
        want_dense=want_dense,
        is_delta=is_delta,
        pull_tables=[lookup.table for lookup in lookups],
        timeout_ms=int(timeout_s * 1000),
        pull_only_read=only_read(lookups),
        pull_formats=formats,  # type: ignore[arg-type]
        dense_format=dense_format,  # type: ignore[arg-type]
    )
    messages = _messages(gradients, server_set, common, [pieces for pieces, _ in keys], is_sync=job.mode == "sync")
    if len(messages) > 1:
        write_down(messages)

    def call(servers: Sequence[int], participants: Sequence[int] = ()) -> list[ServerCall]:
        if participants:
            for server in servers:
                messages[server][0].participants[:] = participants
        return calls_to(server_set, "Push", messages, limit_s, servers, waits_for_others=is_awaited)

    rest = None
    if is_awaited and client.first_decides:
        rest = lambda reply: call(range(1, len(messages)), reply.participants)  # noqa: E731
    first = call(range(len(messages)) if rest is None else [0])
    return Sent(server_set, first, _rows_of(lookups, keys), rest, formats, dense_format)


def _rows_of(
    lookups: Sequence[Lookup], keys: Sequence[tuple[Any, torch.Tensor | None]]
) -> list[tuple[torch.Tensor | None, int]]:
    """For each tensor of rows in the answers: the order that it is in, if not the wanted one, and its width."""
    return [(order, lookup.width) for lookup, (_, order) in zip(lookups, keys, strict=True)]


def _messages(
    gradients: Gradients,
    server_set: ServerSet,
    common: ps_pb2.PushRequest.Header,
    keys: Sequence[Sequence[Tensor]],
    *,
    is_sync: bool,
) -> list[tuple[Any, Tensors]]:
    """The header and the tensors of a push for each server: rows, dense gradients, the keys that are pulled."""
    tables = [server_set.push(part) for part in gradients.tables]
    dense, forms = server_set.encoded(gradients)
    messages: list[tuple[Any, Tensors]] = []
    for server, header in enumerate(to_each(common, server_set)):
        if forms:
            header.dense.extend(forms[server])
        tensors: list[Tensor] = [tensor for parts in tables for tensor in parts[server]]
        if gradients.dense:
            tensors += dense[server]
        tensors += [pieces[server] for pieces in keys]
        messages.append((header, tensors))
    for header, _ in messages[: 1 if is_sync else None]:
        header.position = gradients.position
    return messages


def row_formats_of(job: JobSpec, tables: Sequence[int]) -> list[int]:
    """How rows of some tables travel to a worker; empty if all are float32."""
    found = [number_of(job.tables[table].row_format) for table in tables]
    return found if any(found) else []


def to_each(common: Header, server_set: ServerSet) -> list[Header]:
    """A copy for each server of a header that all get alike."""
    made = []
    for instance in server_set.instances:
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
    server_set: ServerSet,
    method: str,
    messages: Mapping[int, tuple[Any, Tensors]] | Sequence[tuple[Any, Tensors]],
    timeout_s: float,
    servers: Sequence[int],
    *,
    waits_for_others: bool,
) -> list[ServerCall]:
    """One call to each of some servers, each with its message."""
    return [
        server_set.call(server, method, *messages[server], timeout_s=timeout_s, waits_for_others=waits_for_others)
        for server in servers
    ]
