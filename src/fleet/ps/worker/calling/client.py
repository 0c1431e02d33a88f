"""A worker's side of the wire: one call per server, all under way at once."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fleet.errors import MovedError
from fleet.observe.tracing.tracer import tracer
from fleet.observe.waits.waiting import Awaited, LongWait
from fleet.ps.job.patience import rpc_timeout_s, start_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall, results
from fleet.ps.worker.calling.changes import WorkerChanges
from fleet.ps.worker.calling.joining import Apart, Joining, RowLimits, apart
from fleet.ps.worker.calling.outbox import own_outbox
from fleet.ps.worker.calling.pending import Answers, Pending, PendingPull, Unanswered
from fleet.ps.worker.calling.requests import calls_to, send_pull, send_push
from fleet.ps.worker.calling.server_set import Elsewhere, ServerSet, following
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
    from fleet.ps.worker.life.answer_file import AnswerFile

DECLARE_PAUSE_S = 0.1
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
        answers: AnswerFile | None = None,
    ) -> None:
        """`layout`: which layout of servers the transports reach.

        `elsewhere`: how to reach other servers; None if their number never changes. `absent_after_s`: how long a
        synchronous step waits for a worker before it is done without that one; 0: until the step times out.
        `answers`: what the next life of a worker of a durable job is told of the changes that this one has made.
        """
        self.server_set = ServerSet(list(transports), job, job, layout, [0] * len(transports))
        """The servers of today; their number may change."""
        self.job = job
        """The job as this worker declared it; `server_set.job` is the job as the servers hold it."""
        self.elsewhere = elsewhere
        self._absent_after_s = absent_after_s
        self.first_decides = absent_after_s > 0 or (job.is_elastic and job.mode == "sync")
        """Whether server 0 says with whose pushes a synchronous step is done, before the others get theirs."""
        self._swapping = threading.RLock()
        self._following = threading.Lock()
        self._former: list[Transport] = []
        """Connections to servers that were replaced; a call may still wait for its answer."""
        self.worker = worker
        self._life = secrets.randbits(63) + 1
        self._incarnation = 0
        self._numbers = itertools.count(1)
        self._sequence = 0
        self.model_dir = ""
        """The checkpoint that the servers began with; empty if they began anew."""
        self.run = 0
        """Drawn by server 0 when the job began."""
        self.resumed_updates = 0
        """How many updates of this worker all servers had when it joined: those of its former lives."""
        self.resumed_position = b""
        """Where the data of this worker was after those updates, as its former life stored it."""
        self._num_present = 0
        self.half_sent: set[int] = set()
        """The last updates of pushes that only some servers have, from a life whose machine was lost.

        They are made again, and servers that have them leave them out: so no push may go beyond one of these.
        """
        self.num_ended = 0
        """Synchronous mode: how many steps had passes only, as far as this worker knows."""
        self._told: dict[str, Any] = {}
        """What each call says of the last push of whose step all servers have all pushes, where they have copies."""
        self.passed: tuple[int, ...] = ()
        """Which workers had no batch left in the last step."""
        self._outbox = own_outbox(worker)
        self.changes = WorkerChanges(self, self._outbox, answers)
        """Changes of the servers other than pushes."""
        self.unanswered = Unanswered()
        self.encoder = Encoder(job, worker)
        self.row_limits = RowLimits(job)

    @property
    def transports(self) -> list[Transport]:
        """One connection for each server."""
        return self.server_set.transports

    @property
    def sequence(self) -> int:
        """The number of the last push."""
        return self._sequence

    def next_number(self) -> int:
        """The number of the next push or other change; those of several threads differ."""
        return next(self._numbers)

    @property
    def num_servers(self) -> int:
        """How many servers the job has."""
        return len(self.transports)

    @property
    def num_workers(self) -> int:
        """How many workers the job has; where they come and go, how many there were when server 0 last said so."""
        return self._num_present or self.job.num_workers

    def declare(self) -> tuple[bool, int]:
        """Tell every server what is trained; returns whether dense parameters have values, and the version."""
        self.changes.finish()
        lost = Apart()
        with LongWait(f"worker {self.worker}") as wait:
            while True:
                server_set = self.server_set
                try:
                    replies = self._declare_once()
                except MovedError:
                    self.follow(server_set)
                    continue
                if (why := apart(replies, self.server_set)) is None:
                    break
                # Another worker may be loading a checkpoint into them right now, or one of its pushes is under way.
                lost.refuse_lost(why, replies, wait.waited_s)
                if wait.is_due:
                    wait.tell(Awaited(f"another worker to finish what it has begun: {why}", is_limited=True))
                time.sleep(DECLARE_PAUSE_S)
        self.model_dir = replies[0].model_dir
        behind = replies[0] if self.job.mode == "sync" else min(replies, key=lambda reply: reply.steps)
        self.resumed_updates, self.resumed_position = behind.steps, behind.position
        self.half_sent = {reply.steps for reply in replies if reply.steps > behind.steps}
        self.num_ended, self.passed = replies[0].num_ended, tuple(replies[0].passed)
        self._num_present = replies[0].num_workers
        return all(reply.is_started for reply in replies), max(reply.version for reply in replies)

    def _declare_once(self) -> list[ps_pb2.DeclareReply.Header]:
        """Server 0 comes first: it says which life of this worker this may be, and which run of the job."""
        text, self._incarnation = self.server_set.job.to_json(), 0
        joining = Joining(self._life, self._absent_after_s, self.changes.has_left)

        def declare(servers: Sequence[int], run: int = 0) -> list[ps_pb2.DeclareReply.Header]:
            def header(server: int) -> ps_pb2.DeclareRequest.Header:
                return joining.header(text, server, self.caller(server), run)

            return [reply for reply, _ in self.ask("Declare", header, timeout_s=start_timeout_s(), servers=servers)]

        while not self._incarnation:  # first it only asks: a word of a life that is over may come late
            self._incarnation = declare([0])[0].incarnation
            replies = declare([0])
            self._incarnation, self.run = replies[0].incarnation, replies[0].run
        replies += declare(range(1, self.num_servers), replies[0].run)
        self.server_set.instances[:] = [reply.instance for reply in replies]
        return replies

    def follow(self, server_set: ServerSet) -> None:
        """Find the servers that have replaced these, and join them; nothing happens if that is done already."""
        with self._following:
            while self.server_set is server_set:
                other = following(server_set, self.elsewhere)
                has_others = other.transports is not server_set.transports
                if self._incarnation and has_others:
                    try:
                        caller = ps_pb2.Caller(worker=self.worker, incarnation=self._incarnation, term=other.term)
                        Joining(self._life, self._absent_after_s, self.changes.has_left).join(other, caller)
                    except MovedError:
                        server_set = other
                with self._swapping:
                    self._former += self.server_set.transports if has_others else []
                    self.server_set = other
                if has_others:
                    _log.info("worker %d goes on with %d servers", self.worker, self.num_servers)

    def start(self, values: Sequence[Tensors]) -> None:
        """Send first values: for each server, one buffer per group of dense parameters, then the tensors it keeps."""
        groups = range(len(self.job.dense.groups))

        def tensors(server: int) -> Tensors:
            dense = self.server_set.dense([one[: len(groups)] for one in values], groups)
            return [*dense[server], *self.server_set.kept([one[len(groups) :] for one in values])[server]]

        self.ask("Start", lambda server: ps_pb2.StartRequest.Header(caller=self.caller(server)), tensors)

    def keep(self, values: Sequence[Tensors]) -> None:
        """Send what each server shall keep from now on."""
        self.changes.make(
            "Keep",
            lambda server: ps_pb2.KeepRequest.Header(caller=self.caller(server)),
            lambda server: self.server_set.kept(values)[server],
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

        `is_exact`: in float32, whatever format they travel in otherwise.
        """
        send = partial(send_pull, self, lookups, version, dense=dense, kept=kept, is_exact=is_exact)
        with measured("pull"):
            return PendingPull(Pending(self, send, dense=dense, kept=kept).results, lookups)

    def push(
        self,
        gradients: Gradients,
        *,
        want_dense: bool = False,
        is_delta: bool = False,
        lookups: Sequence[Lookup] = (),
        is_awaited: bool = False,
    ) -> Pending:
        """Send gradients; each server applies them once. A pull may ride along: answers begin with its rows.

        `is_awaited`: servers answer when the step is complete, that is when every worker has pushed it.
        """
        self.changes.settle()
        self._sequence = self.next_number()
        encoded, write_down = self.encoder.encode(gradients), self._outbox.put
        send = partial(send_push, self, encoded, self._sequence, lookups, write_down=write_down)
        send = partial(send, want_dense=want_dense, is_delta=is_delta, is_awaited=is_awaited)
        with measured("push"):
            return Pending(self, send, self.note, dense=want_dense)

    def arrive(self) -> None:
        """Wait until the last step is complete, where nobody has: what this worker does next comes behind it."""
        self.unanswered.wait()

    def forget_passed(self) -> None:
        """Forget who had passed: this worker has waited for the ends of epochs that others came to."""
        self.passed = ()

    def note(self, answers: Answers) -> None:
        """Note what the answers to a push say of the job."""
        self.row_limits.note(answers)
        self.passed, self.num_ended = tuple(answers[0][0].passed), answers[0][0].num_ended
        self._num_present = answers[0][0].num_workers

    def assign(self, table: int, keys: torch.Tensor, values: torch.Tensor) -> int:
        """Write rows of a table by value; returns how many other rows had to go to stay within its ceiling.

        No push may be under way.
        """
        rows = TablePush(table, 0.0, keys, values, [])
        cut: dict[int, list[list[Tensor]]] = {}

        def tensors(server: int) -> Tensors:
            server_set = self.server_set
            return (cut.get(id(server_set)) or cut.setdefault(id(server_set), server_set.push(rows)))[server]

        replies = self.changes.make(
            "Assign", lambda server: ps_pb2.AssignRequest.Header(caller=self.caller(server), table=table), tensors
        )
        return sum(reply.evicted for reply in replies)

    def ask(
        self,
        method: str,
        header: Callable[[int], Message],
        tensors: Callable[[int], Tensors] = lambda _: (),
        timeout_s: float | None = None,
        servers: Sequence[int] | None = None,
        write_down: Callable[[Sequence[tuple[Any, Tensors]]], None] = lambda _: None,
        answers_of: Callable[[Sequence[ServerCall]], list[tuple[Any, Tensors]]] = results,
    ) -> list[tuple[Any, Tensors]]:
        """Call every server and wait for all; `write_down` gets what is sent, one message for each, before it is."""
        limit_s = rpc_timeout_s() if timeout_s is None else timeout_s
        while True:
            with self._swapping:  # headers and tensors are made for one set of servers
                server_set = self.server_set
                chosen = range(len(server_set.transports)) if servers is None else servers
                messages = {server: (header(server), tensors(server)) for server in chosen}
                write_down(list(messages.values()))
                calls = calls_to(server_set, method, messages, limit_s, chosen, waits_for_others=method == "Norm")
            try:
                return answers_of(calls)
            except MovedError:
                if servers is not None:
                    raise
                self.follow(server_set)

    def ask_first(
        self, method: str, header: Callable[[], Message], timeout_s: float, patience_s: float
    ) -> tuple[Any, Tensors]:
        """Call server 0 alone, again where another has replaced it."""
        while True:
            with self._swapping:
                server_set = self.server_set
                call = server_set.call(0, method, header(), timeout_s=timeout_s, patience_s=patience_s)
            try:
                return call.result()
            except MovedError:
                self.follow(server_set)

    def caller(self, server: int) -> ps_pb2.Caller:
        """Who calls, for a request to one server."""
        return self.caller_at(self.server_set, server)

    def caller_at(self, server_set: ServerSet, server: int) -> ps_pb2.Caller:
        """Who calls, for a request to one server of a set."""
        caller = ps_pb2.Caller(worker=self.worker, incarnation=self._incarnation, term=server_set.term, **self._told)
        caller.instance, caller.is_traced = server_set.instances[server], tracer.is_on
        return caller

    def tell_all_have(self, norm: float | None) -> None:
        """From now on say with every call that all servers have the whole last step, and the norm of its mean."""
        self._told = {"told_sequence": self.sequence, "told_norm": norm}

    def close(self) -> None:
        """Close the connections."""
        for transport in (*self.server_set.transports, *self._former):
            transport.close()
