"""What a worker says when it joins servers, and whether those that it has joined belong together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fleet.errors import CheckpointError, UsageError
from fleet.ps.job.patience import rpc_timeout_s, start_timeout_s
from fleet.ps.job.spec import JobSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall

if TYPE_CHECKING:
    from fleet.ps.worker.calling.pending import Answers
    from fleet.ps.worker.calling.server_set import ServerSet


LOST_S = 10.0
"""How long servers may be more than a push apart, with nothing changed about it."""
_ANEW = (
    "bring back what was kept (FLEET_DURABLE, --durable); or begin anew: remove it on all machines, and go on from the "
    "last fleet.Checkpoint"
)


class Joining(NamedTuple):
    """What a worker says of itself when it joins."""

    life: int
    absent_after_s: float
    has_left: bool

    def header(self, job: str, server: int, caller: ps_pb2.Caller, run: int = 0) -> ps_pb2.DeclareRequest.Header:
        """The declaration to one server."""
        return ps_pb2.DeclareRequest.Header(
            caller=caller,
            job=job,
            server_index=server,
            life=self.life,
            run=run,
            absent_after_ms=int(1000 * self.absent_after_s),
            has_left=self.has_left,
        )

    def join(self, server_set: ServerSet, caller: ps_pb2.Caller) -> None:
        """Join servers that have taken over the ledger of others; this worker goes on, so it is no new life."""
        text, run = server_set.job.to_json(), 0
        for server, transport in enumerate(server_set.transports):
            header, limit_s = self.header(text, server, caller, run), start_timeout_s()
            reply, _ = ServerCall(
                transport, "Declare", header, (), limit_s, rpc_timeout_s(), moved=server_set.moved(server)
            ).result()
            assert isinstance(reply, ps_pb2.DeclareReply.Header)
            server_set.instances[server], run = reply.instance, reply.run  # server 0 says it, also to one that is empty


class LostStateError(CheckpointError):
    """Servers do not belong together, and no push or load under way explains it: nobody mends that by waiting."""


class Apart:
    """Why servers do not belong together, and since when nothing has changed about it."""

    def __init__(self) -> None:
        self._versions: list[int] = []
        self._since = 0.0

    def refuse_lost(self, why: str, replies: Sequence[ps_pb2.DeclareReply.Header], waited_s: float) -> None:
        """LostStateError where nothing else can be hoped for.

        A server that lacks more than one push has lost them if that stays so for a while: a push of another worker may
        be under way, so that servers are one apart, and a load closes those that it changes.
        """
        versions = [reply.version for reply in replies]
        if versions != self._versions:
            self._versions, self._since = versions, time.monotonic()
        is_lost = max(versions) - min(versions) > 1 and time.monotonic() - self._since > min(LOST_S, rpc_timeout_s())
        if is_lost or waited_s > rpc_timeout_s():
            raise LostStateError(f"{why}; {_ANEW}")


def apart(replies: Sequence[ps_pb2.DeclareReply.Header], server_set: ServerSet) -> str | None:
    """Why the servers do not belong together; None if they do."""
    versions = [reply.version for reply in replies]
    folders = sorted({reply.model_dir for reply in replies})
    if len(folders) > 1:
        return f"the servers began with different checkpoints: {folders}; give all of them the same one"
    if 0 in versions and max(versions) > 1:
        empty = versions.index(0)
        return (
            f"server {empty} ({server_set.transports[empty].endpoint}) has nothing, while others have taken "
            f"{max(versions)} pushes: what it kept is gone, and it has no copy (--standby)"
        )
    goes_on = server_set.job.is_elastic  # steps are made while this worker, for which they do not wait, asks
    if len(set(versions)) > 1 and (0 in versions or (server_set.job.mode == "sync" and not goes_on)):
        return f"the servers are at different steps: {sorted(set(versions))}"
    return None


class RowLimits:
    """What a worker knows of the rows of tables with a limit; false where no table has one."""

    def __init__(self, job: JobSpec) -> None:
        self._limited = [spec for spec in job.tables if spec.max_rows]
        self._num_rows = [0] * len(self._limited)
        self.was_exceeded = False
        """Whether `check` has raised."""

    def __bool__(self) -> bool:
        return bool(self._limited)

    def note(self, answers: Answers) -> None:
        """Note what the answers to a push say, one per server."""
        self._num_rows = [sum(header.rows[index] for header, _ in answers) for index in range(len(self._limited))]

    def check(self) -> None:
        """UsageError if a table has more rows, on all servers, than it was declared for.

        A push is not checked when it is answered: it has been applied, and its answer must be taken over first.
        """
        for spec, num_rows in zip(self._limited, self._num_rows, strict=True):
            if num_rows > spec.max_rows:
                self.was_exceeded = True
                raise UsageError(
                    f"table {spec.name!r} is declared for {spec.max_rows} ids and now has rows for {num_rows}; end "
                    "this job, and raise its size, or train fewer distinct ids"
                )
