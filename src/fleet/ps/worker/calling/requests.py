"""Pulls and pushes on their way out: a header that all servers get alike, and one call to each of them.

Each may be sent several times: when other servers have taken the place of these, it is cut anew for them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import repeat
from typing import Any, TypeVar

from fleet.ps.job.patience import rpc_timeout_s, step_timeout_s
from fleet.ps.job.spec import JobSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.formats import number_of
from fleet.ps.wire.messages import Tensor, Tensors
from fleet.ps.wire.voices import voice_of
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.calling.pending import Sent
from fleet.ps.worker.calling.server_set import ServerSet
from fleet.ps.worker.sending.gradients import Gradients

Header = TypeVar("Header", ps_pb2.PullRequest.Header, ps_pb2.PushRequest.Header)


GRACE_S = 10.0
"""How much longer a caller waits than the server itself may before it answers."""


@dataclass(frozen=True)
class OutgoingPull:
    """One pull, of rows, dense parameters and kept tensors."""

    caller_at: Callable[[ServerSet, int], ps_pb2.Caller]
    """Who calls, for one server of a set."""
    job: JobSpec
    lookups: Sequence[Lookup]
    version: int
    """The servers answer when they have reached it."""
    _: KW_ONLY
    dense: bool
    kept: bool
    is_exact: bool
    """Whether floats travel as float32, whatever the job's formats are."""

    def send(self, server_set: ServerSet) -> Sent:
        """ServerCall every server of a set."""
        # Only these may have to wait for other workers.
        timeout_s = step_timeout_s() if self.version or self.dense or self.kept else rpc_timeout_s()
        tables = [lookup.table for lookup in self.lookups]
        formats = [] if self.is_exact else row_formats_of(self.job, tables)
        dense_format = number_of(self.job.dense.value_format) if self.dense and not self.is_exact else 0
        keys = [server_set.keys(lookup.route) for lookup in self.lookups]
        common = ps_pb2.PullRequest.Header(
            caller=self.caller_at(server_set, 0),
            version=self.version,
            tables=tables,
            dense=self.dense,
            kept=self.kept,
            timeout_ms=int(timeout_s * 1000),
            only_read=only_read(self.lookups),
            formats=formats,  # type: ignore[arg-type]
            dense_format=dense_format,  # type: ignore[arg-type]
        )
        headers = to_each(common, server_set)
        messages = [(header, [pieces[server] for pieces, _ in keys]) for server, header in enumerate(headers)]
        waits_for_others = bool(self.version or self.dense)
        servers, limit_s = range(len(messages)), timeout_s + GRACE_S
        calls = calls_to(server_set, "Pull", messages, limit_s, servers, waits_for_others=waits_for_others)
        rows = [(order, lookup.width) for lookup, (_, order) in zip(self.lookups, keys, strict=True)]
        return Sent(server_set, calls, rows, formats=formats, dense_format=dense_format)


@dataclass(frozen=True)
class OutgoingPush:
    """One push, and the pull that rides along."""

    caller_at: Callable[[ServerSet, int], ps_pb2.Caller]
    """Who calls, for one server of a set."""
    job: JobSpec
    gradients: Gradients
    """Encoded already: whoever gets them again gets the same bytes."""
    sequence: int
    """The number of the push, by which servers know one that they have."""
    lookups: Sequence[Lookup]
    _: KW_ONLY
    write_down: Callable[[Sequence[tuple[Any, Tensors]]], None]
    """Keeps a push to several servers for the worker's next life; called before the first of them gets it."""
    want_dense: bool
    want_rows: bool
    is_delta: bool
    is_awaited: bool
    """Whether servers answer when every worker has pushed the step."""
    first_decides: bool
    """Whether server 0 says with whose pushes an awaited step is done; the others are called after it."""

    def send(self, server_set: ServerSet) -> Sent:
        """ServerCall every server of a set."""
        gradients, lookups = self.gradients, self.lookups
        pull_formats = row_formats_of(self.job, [lookup.table for lookup in lookups])
        row_formats = row_formats_of(self.job, [part.table for part in gradients.tables] if self.want_rows else [])
        dense_format = number_of(self.job.dense.value_format) if self.want_dense else 0
        timeout_s = step_timeout_s() if self.is_awaited else 0.0
        limit_s = timeout_s + max(GRACE_S, rpc_timeout_s()) if self.is_awaited else rpc_timeout_s()
        is_partial = bool(gradients.dense) and len(gradients.lrs) < len(self.job.dense.groups)
        keys = [server_set.keys(lookup.route) for lookup in lookups]
        tables = [server_set.push(part) for part in gradients.tables]
        common = push_header(
            gradients,
            caller=self.caller_at(server_set, 0),
            sequence=self.sequence,
            dense_groups=gradients.lrs if is_partial else [],
            row_formats=row_formats,
            want_dense=self.want_dense,
            want_rows=self.want_rows,
            is_delta=self.is_delta,
            pull_tables=[lookup.table for lookup in lookups],
            timeout_ms=int(timeout_s * 1000),
            pull_only_read=only_read(lookups),
            pull_formats=pull_formats,
            dense_format=dense_format,
        )
        messages = self._messages(server_set, common, [parts for parts, _ in tables], [pieces for pieces, _ in keys])
        if len(messages) > 1:
            self.write_down(messages)
        both = zip(gradients.tables, tables, strict=True) if self.want_rows else ()
        rows = [(order, self.job.tables[part.table].width) for part, (_, order) in both]
        formats = [*(row_formats or [0] * len(rows)), *(pull_formats or [0] * len(lookups))]
        rows += [(order, lookup.width) for lookup, (_, order) in zip(lookups, keys, strict=True)]

        def call(servers: Sequence[int], participants: Sequence[int] = ()) -> list[ServerCall]:
            if participants:
                for server in servers:
                    messages[server][0].participants[:] = participants
            return calls_to(server_set, "Push", messages, limit_s, servers, waits_for_others=self.is_awaited)

        if self.is_awaited and self.first_decides:
            others = range(1, len(messages))
            rest = lambda reply: call(others, reply.participants)  # noqa: E731
            return Sent(server_set, call([0]), rows, rest, formats, dense_format)
        return Sent(server_set, call(range(len(messages))), rows, None, formats, dense_format)

    def _messages(
        self,
        server_set: ServerSet,
        common: ps_pb2.PushRequest.Header,
        tables: Sequence[Sequence[Sequence[Tensor]]],
        keys: Sequence[Sequence[Tensor]],
    ) -> list[tuple[Any, Tensors]]:
        """The header and the tensors for each server: rows, dense gradients, the keys that are pulled."""
        dense, forms = server_set.encoded(self.gradients)
        messages: list[tuple[Any, Tensors]] = []
        for server, header in enumerate(to_each(common, server_set)):
            if forms:
                header.dense.extend(forms[server])
            tensors: list[Tensor] = [tensor for parts in tables for tensor in parts[server]]
            if self.gradients.dense:
                tensors += dense[server]
            tensors += [pieces[server] for pieces in keys]
            messages.append((header, tensors))
        for header, _ in messages[: 1 if self.job.mode == "sync" else None]:
            header.position = self.gradients.position
        return messages


def push_header(gradients: Gradients, *, row_formats: Sequence[int], **more: Any) -> ps_pb2.PushRequest.Header:
    """The header of a push, with `more` fields. `row_formats`: the formats of rows that are wanted back."""
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
    calls = []
    for server in servers:
        header, tensors = messages[server]
        transport = server_set.transports[server]
        voice = voice_of(transport, header.caller, method, waits_for_others=waits_for_others)
        calls.append(
            ServerCall(transport, method, header, tensors, timeout_s, rpc_timeout_s(), voice, server_set.moved(server))
        )
    return calls
