"""A worker's side of the wire: one call per server, all under way at once."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fleet import env
from fleet.errors import CommunicationError, MovedError
from fleet.observe.tracing.tracer import tracer
from fleet.ps.job.patience import is_durable, rpc_timeout_s, start_timeout_s, step_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall, Voice, results
from fleet.ps.wire.formats import number_of
from fleet.ps.wire.voices import voice_of
from fleet.ps.worker.calling.joining import Joining, apart
from fleet.ps.worker.calling.outbox import own_outbox
from fleet.ps.worker.calling.pending import Answers, Pending, PendingPull, Sent
from fleet.ps.worker.calling.place import Elsewhere, Place, following
from fleet.ps.worker.calling.requests import calls_to, only_read, push_header, row_formats_of, to_each
from fleet.ps.worker.calling.row_limits import RowLimits
from fleet.ps.worker.parts.meters import measured
from fleet.ps.worker.sending.encoding import Encoder
from fleet.ps.worker.sending.gradients import Gradients, TablePush

if TYPE_CHECKING:
    import torch
    from google.protobuf.message import Message

    from fleet.ps.job.spec import JobSpec
    from fleet.ps.wire.messages import Tensor, Tensors
    from fleet.ps.wire.transport import Transport
    from fleet.ps.worker.asking.lookup import Lookup

DECLARE_PAUSE_S = 0.1
# On top of what a server itself may wait before it answers.
GRACE_S = 10.0
# How long a worker that has finished, and whose gradients are all in, tries to say so.
LEAVE_S = 5.0

_log = logging.getLogger(__name__)


class Client:
    """One worker's connections to all servers of a job. Pushes come from one thread at a time."""

    def __init__(
        self,
        transports: Sequence[Transport],
        worker: int,
        job: JobSpec,
        layout: int = 0,
        *,
        elsewhere: Elsewhere | None = None,
        absent_after_s: float = 0.0,
    ) -> None:
        """`layout` is that of the servers that the transports reach.

        `elsewhere`: how others are reached, None if their number stays. `absent_after_s`: how long a synchronous step
        waits for a worker before it is done without; 0: until the wait itself ends.
        """
        self.place = Place(list(transports), job, job, layout, [0] * len(transports))
        """The servers that there are."""
        self.job = job
        """As it was declared; `place.job` is what the servers hold."""
        self.elsewhere = elsewhere
        self._absent_after_s = absent_after_s
        self._swapping = threading.RLock()
        self._following = threading.Lock()
        self._former: list[Transport] = []
        """To servers that are no more; somebody may still wait for their last word."""
        self.worker = worker
        self._life = secrets.randbits(63) + 1
        self._incarnation = 0
        self._sequence = 0
        self.model_dir = ""
        """The checkpoint that the servers began with; empty if they began anew."""
        self.run = 0
        """Drawn by server 0 when the job began."""
        self.resumed_updates = 0
        """How many updates of this worker the servers had when it joined: those of its former lives."""
        self.resumed_position = b""
        """Where its data was then."""
        self.num_ended = 0
        """Synchronous mode: how many steps had passes only, as far as this worker knows."""
        self.passed: tuple[int, ...] = ()
        """Which workers had no batch left in the last step."""
        self._outbox = own_outbox(worker)
        self.encoder = Encoder(job, worker)
        self.row_limits = RowLimits(job)

    @property
    def transports(self) -> list[Transport]:
        """One for each server."""
        return self.place.transports

    @property
    def sequence(self) -> int:
        """The number of the last push."""
        return self._sequence

    @property
    def num_servers(self) -> int:
        """How many servers the job has."""
        return len(self.transports)

    @property
    def num_workers(self) -> int:
        """How many workers the job has."""
        return self.job.num_workers

    def declare(self) -> tuple[bool, int]:
        """Tell every server what is trained; returns whether dense parameters have values, and the version."""
        self._outbox.send_again(self.transports, is_settled=self.job.clips_on_servers)
        deadline = time.monotonic() + rpc_timeout_s()
        while True:
            place = self.place
            try:
                replies = self._declare_once()
            except MovedError:
                self.follow(place)
                continue
            if (why := apart(replies, self.place)) is None:
                break
            # Another worker may be loading a checkpoint into the servers right now, or one of its pushes is under way.
            if time.monotonic() > deadline:
                raise CommunicationError(why)
            time.sleep(DECLARE_PAUSE_S)
        self.model_dir = replies[0].model_dir
        self.resumed_updates, self.resumed_position = replies[0].steps, replies[0].position
        self.num_ended, self.passed = replies[0].num_ended, tuple(replies[0].passed)
        return all(reply.is_started for reply in replies), max(reply.version for reply in replies)

    def _declare_once(self) -> list[ps_pb2.DeclareReply.Header]:
        """Server 0 comes first: it says which life of this worker it is, and which run of the job."""
        text, self._incarnation, joining = self.place.job.to_json(), 0, Joining(self._life, self._absent_after_s)

        def declare(servers: Sequence[int], run: int = 0) -> list[ps_pb2.DeclareReply.Header]:
            def header(server: int) -> ps_pb2.DeclareRequest.Header:
                return joining.header(text, server, self.caller(server), run)

            return [reply for reply, _ in self.ask("Declare", header, timeout_s=start_timeout_s(), servers=servers)]

        replies = declare([0])
        self._incarnation, self.run = replies[0].incarnation, replies[0].run
        replies += declare(range(1, self.num_servers), replies[0].run)
        self.place.instances[:] = [reply.instance for reply in replies]
        return replies

    def follow(self, place: Place) -> None:
        """Find the servers that have taken the place of some, and join them, unless this has happened."""
        with self._following:
            while self.place is place:
                other = following(place, self.elsewhere)
                if self._incarnation:
                    try:
                        caller = ps_pb2.Caller(worker=self.worker, incarnation=self._incarnation)
                        Joining(self._life, self._absent_after_s).join(other, caller)
                    except MovedError:
                        place = other
                with self._swapping:
                    self._former += self.place.transports
                    self.place = other
        _log.info("worker %d goes on with %d servers", self.worker, self.num_servers)

    def start(self, values: Sequence[Tensors]) -> None:
        """Send first values: for each server, one buffer per group of dense parameters, then the tensors it keeps."""
        groups = range(len(self.job.dense.groups))

        def tensors(server: int) -> Tensors:
            dense = self.place.dense([one[: len(groups)] for one in values], groups)
            return [*dense[server], *self.place.kept([one[len(groups) :] for one in values])[server]]

        self.ask("Start", lambda server: ps_pb2.StartRequest.Header(caller=self.caller(server)), tensors)

    def keep(self, values: Sequence[Tensors]) -> None:
        """Send what each server shall keep from now on."""
        self.ask(
            "Keep",
            lambda server: ps_pb2.KeepRequest.Header(caller=self.caller(server)),
            lambda server: self.place.kept(values)[server],
        )

    def pull(
        self,
        lookups: Sequence[Lookup],
        *,
        version: int = 0,
        dense: bool = False,
        kept: bool = False,
        is_exact: bool = False,
    ) -> PendingPull:
        """Ask for the rows of some lookups, dense parameters, kept tensors; answered when `version` is reached.

        `is_exact`: whatever format they travel in otherwise.
        """
        # Only these may have to wait for other workers.
        timeout_s = step_timeout_s() if version or dense or kept else rpc_timeout_s()
        tables = [lookup.table for lookup in lookups]
        formats = [] if is_exact else row_formats_of(self.job, tables)
        dense_format = number_of(self.job.dense.value_format) if dense and not is_exact else 0

        def send(place: Place) -> Sent:
            keys = [place.keys(lookup.route) for lookup in lookups]
            common = ps_pb2.PullRequest.Header(
                caller=self.caller_at(place, 0),
                version=version,
                tables=tables,
                dense=dense,
                kept=kept,
                timeout_ms=int(timeout_s * 1000),
                only_read=only_read(lookups),
                formats=formats,  # type: ignore[arg-type]
                dense_format=dense_format,  # type: ignore[arg-type]
            )
            messages = [(header, [pieces[n] for pieces, _ in keys]) for n, header in enumerate(to_each(common, place))]
            waits_for_others = bool(version or dense)
            calls = calls_to(place, "Pull", messages, timeout_s + GRACE_S, waits_for_others=waits_for_others)
            rows = [(order, lookup.width) for lookup, (_, order) in zip(lookups, keys, strict=True)]
            return Sent(place, calls, rows, formats=formats, dense_format=dense_format)

        with measured("pull"):
            return PendingPull(Pending(self, send, dense=dense, kept=kept).results, lookups)

    def push(
        self,
        gradients: Gradients,
        *,
        want_dense: bool = False,
        want_rows: bool = False,
        is_delta: bool = False,
        lookups: Sequence[Lookup] = (),
        is_awaited: bool = False,
    ) -> Pending:
        """Send gradients; each server applies them once. A pull may ride along: answers begin with its rows.

        `is_awaited`: servers answer when the step is complete, that is when every worker has pushed it.
        """
        self._sequence += 1
        sequence = self._sequence
        gradients = self.encoder.encode(gradients)
        pull_formats = row_formats_of(self.job, [lookup.table for lookup in lookups])
        row_formats = row_formats_of(self.job, [part.table for part in gradients.tables] if want_rows else [])
        dense_format = number_of(self.job.dense.value_format) if want_dense else 0
        timeout_s = step_timeout_s() if is_awaited else 0.0
        is_partial = bool(gradients.dense) and len(gradients.lrs) < len(self.job.dense.groups)
        limit_s = timeout_s + max(GRACE_S, rpc_timeout_s()) if is_awaited else rpc_timeout_s()

        def send(place: Place) -> Sent:
            keys = [place.keys(lookup.route) for lookup in lookups]
            tables = [place.push(part) for part in gradients.tables]
            dense, forms = place.encoded(gradients)
            common = push_header(
                gradients,
                caller=self.caller_at(place, 0),
                sequence=sequence,
                dense_groups=gradients.lrs if is_partial else [],
                row_formats=row_formats,
                want_dense=want_dense,
                want_rows=want_rows,
                is_delta=is_delta,
                pull_tables=[lookup.table for lookup in lookups],
                timeout_ms=int(timeout_s * 1000),
                pull_only_read=only_read(lookups),
                pull_formats=pull_formats,
                dense_format=dense_format,
            )
            messages: list[tuple[Any, Tensors]] = []
            for server, header in enumerate(to_each(common, place)):
                if forms:
                    header.dense.extend(forms[server])
                tensors: list[Tensor] = [tensor for parts, _ in tables for tensor in parts[server]]
                if gradients.dense:
                    tensors += dense[server]
                tensors += [pieces[server] for pieces, _ in keys]
                messages.append((header, tensors))
            messages[0][0].position = gradients.position
            if len(messages) > 1:
                self._outbox.put(messages)
            both = zip(gradients.tables, tables, strict=True) if want_rows else ()
            rows = [(order, self.job.tables[part.table].width) for part, (_, order) in both]
            formats = [*(row_formats or [0] * len(rows)), *(pull_formats or [0] * len(lookups))]
            rows += [(order, lookup.width) for lookup, (_, order) in zip(lookups, keys, strict=True)]

            def call(servers: Sequence[int], participants: Sequence[int] = ()) -> list[ServerCall]:
                if participants:
                    for server in servers:
                        messages[server][0].participants[:] = participants
                return calls_to(place, "Push", messages, limit_s, servers, waits_for_others=is_awaited)

            if is_awaited and self._absent_after_s:  # server 0 says with whose pushes the step is done
                others = range(1, len(messages))
                rest = lambda reply: call(others, reply.participants)  # noqa: E731
                return Sent(place, call([0]), rows, rest, formats, dense_format)
            return Sent(place, call(range(len(messages))), rows, None, formats, dense_format)

        with measured("push"):
            return Pending(self, send, self.note if self.row_limits or is_awaited else None, dense=want_dense)

    def forget_passed(self) -> None:
        """The ends of epochs that others have come to were waited for."""
        self.passed = ()

    def note(self, answers: Answers) -> None:
        """Note what the answers to a push say of the job."""
        self.row_limits.note(answers)
        self.passed, self.num_ended = tuple(answers[0][0].passed), answers[0][0].num_ended

    def assign(self, table: int, keys: torch.Tensor, values: torch.Tensor) -> int:
        """Write rows of a table by value, in the place of whatever is there; how many others went, for its ceiling.

        No push may be under way.
        """
        self._sequence += 1
        sequence, rows = self._sequence, TablePush(table, 0.0, keys, values, [])
        cut: dict[int, list[list[Tensor]]] = {}

        def tensors(server: int) -> Tensors:
            place = self.place
            return (cut.get(id(place)) or cut.setdefault(id(place), place.push(rows)[0]))[server]

        replies = self.ask(
            "Assign",
            lambda server: ps_pb2.AssignRequest.Header(caller=self.caller(server), sequence=sequence, table=table),
            tensors,
        )
        return sum(reply.evicted for reply, _ in replies)

    def leave(self, *, is_unfinished: bool = False) -> None:
        """Tell the servers that this worker has finished; those that are gone, as all workers are, need not be told.

        `is_unfinished`: it ends without having said so before, and whoever still counts on it is told.
        """
        # Servers that fleetrun looks after in a durable job come back, and stay until it ends them.
        are_kept = is_durable() and env.FLEET_JOB_ID.text() is not None
        patience_s = rpc_timeout_s() if are_kept else min(LEAVE_S, rpc_timeout_s())
        place = self.place
        for server, transport in enumerate(place.transports):
            header = ps_pb2.LeaveRequest.Header(caller=self.caller_at(place, server), is_unfinished=is_unfinished)
            try:
                ServerCall(transport, "Leave", header, (), rpc_timeout_s(), patience_s, moved=place.moved).result()
            except MovedError:
                self.follow(place)
                self.leave(is_unfinished=is_unfinished)
                return
            except CommunicationError as error:
                if not error.retryable:
                    raise
                _log.warning("worker %d could not take leave: %s", self.worker, error)
        if not is_unfinished:
            self._outbox.remove()

    def ask(
        self,
        method: str,
        header: Callable[[int], Message],
        tensors: Callable[[int], Tensors] = lambda _: (),
        timeout_s: float | None = None,
        is_repeatable: bool = True,
        servers: Sequence[int] | None = None,
    ) -> list[tuple[Any, Tensors]]:
        """Call every server and wait for all; a call that may not be repeated fails when its connection does."""
        limit_s = rpc_timeout_s() if timeout_s is None else timeout_s
        patience_s = rpc_timeout_s() if is_repeatable else 0.0
        while True:
            with self._swapping:  # headers and tensors are those for one place
                place = self.place
                calls = [
                    ServerCall(
                        place.transports[server],
                        method,
                        header(server),
                        tensors(server),
                        limit_s,
                        patience_s,
                        self._voice(place, server, method, waits_for_others=method == "Norm"),
                        place.moved,
                    )
                    for server in (range(len(place.transports)) if servers is None else servers)
                ]
            try:
                return results(calls)
            except MovedError:
                if servers is not None:
                    raise
                self.follow(place)

    def ask_first(
        self, method: str, header: Callable[[], Message], timeout_s: float, patience_s: float
    ) -> tuple[Any, Tensors]:
        """Call server 0 alone."""
        while True:
            with self._swapping:
                place = self.place
                call = ServerCall(place.transports[0], method, header(), (), timeout_s, patience_s, moved=place.moved)
            try:
                return call.result()
            except MovedError:
                self.follow(place)

    def caller(self, server: int) -> ps_pb2.Caller:
        """Who calls, for a request to one server."""
        return self.caller_at(self.place, server)

    def caller_at(self, place: Place, server: int) -> ps_pb2.Caller:
        """Who calls, for a request to a server of some place."""
        return ps_pb2.Caller(
            worker=self.worker,
            incarnation=self._incarnation,
            instance=place.instances[server],
            is_traced=tracer.is_on,
        )

    def close(self) -> None:
        """Let the connections go."""
        for transport in (*self.place.transports, *self._former):
            transport.close()

    def _voice(self, place: Place, server: int, method: str, *, waits_for_others: bool = False) -> Voice:
        caller = self.caller_at(place, server)
        return voice_of(place.transports[server], caller, method, waits_for_others=waits_for_others)
