"""A worker's side of a step that servers do in two rounds; `fleet.ps.server.clipping` is the servers' side.

So it is where the norm of the mean gradient is limited, and where servers have copies: no server applies a step before
all servers have all of its pushes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from fleet.errors import CommunicationError, NotReadyError
from fleet.ps.job.patience import is_durable, step_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import results
from fleet.ps.worker.calling.pending import Pending
from fleet.ps.worker.calling.requests import GRACE_S, calls_to
from fleet.ps.worker.calling.server_set import ServerSet

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client


def must_settle(client: Client) -> bool:
    """Whether a step has two rounds: not for a single server that stays alone, which has all of it."""
    has_norm = client.job.clips_on_servers and (client.num_servers > 1 or is_durable())
    return has_norm or keeps_pushes(client.server_set)


def keeps_pushes(server_set: ServerSet) -> bool:
    """Whether servers keep the pushes of a synchronous step until all have all of them, for they have copies."""
    return server_set.term > 0 and server_set.job.mode == "sync" and len(server_set.transports) > 1


def settle(client: Client, step: int, pushed: Pending) -> None:
    """Bring a step whose push is under way to its end, and note what the servers say of it.

    Where they have copies it is enough that all have all of its pushes: they hear so with whatever comes next.
    """
    said = [header for header, _ in pushed.results()]
    here = [one for one in said if one.is_collected]
    are_all_here = len(here) + sum(one.version > step for one in said) == len(said)
    has_norm = len(here) == len(said) or not client.job.clips_on_servers
    if are_all_here and has_norm and len({tuple(one.lives) for one in here}) < 2:
        client.tell_all_have(fsum(one.squared_norm for one in said))
        return

    def ask(total: float | None) -> list[Any]:
        def header(server: int) -> ps_pb2.NormRequest.Header:
            return _header(client.caller(server), step, client.sequence, total)

        return [reply for reply, _ in client.ask("Norm", header, timeout_s=step_timeout_s() + GRACE_S)]

    def push_again() -> None:
        pushed.again()
        pushed.results()

    replies, total = _settled(ask, push_again)
    client.tell_all_have(total)
    client.note([(reply.outcome, ()) for reply in replies])


def settle_again(
    server_set: ServerSet, pushed: Sequence[ps_pb2.PushRequest.Header], push_again: Callable[[], object]
) -> None:
    """Bring a step to its end that a former life of this worker had pushed."""

    def ask(total: float | None) -> list[Any]:
        return _asked(server_set, [_header(one.caller, one.step, one.sequence, total) for one in pushed])

    _settled(ask, push_again)


def settle_former(server_set: ServerSet, worker: int) -> bool:
    """Bring the step to its end whose push a former life of this worker has left on all servers.

    If one of them lacks it, none has applied the step: this life makes it again, and those that have it forget it. Its
    machine may be lost, with what was written down there; where it is only cut off, servers refuse it by the term.
    Returns whether it had left all of them: one that has made a step without it waits for it no more, nor may others.
    """
    caller = ps_pb2.Caller(worker=worker, term=server_set.term)
    headers = [ps_pb2.NormRequest.Header(caller=caller, is_former=True) for _ in server_set.transports]
    try:
        replies = _asked(server_set, headers)
    except NotReadyError:  # servers that have begun anew
        return False
    kept = min((one for one in replies if not one.is_lost), key=lambda one: one.version, default=None)
    if kept is None or any(reply.is_lost and reply.version == kept.version for reply in replies):
        return all(reply.has_left for reply in replies)
    former = ps_pb2.Caller(worker=worker, incarnation=kept.incarnation, term=server_set.term)

    def lost() -> None:
        raise CommunicationError(f"a server has lost what worker {worker} had pushed of step {kept.version}; try again")

    def ask(total: float | None) -> list[Any]:
        return _asked(server_set, [_header(former, kept.version, kept.sequence, total) for _ in server_set.transports])

    _settled(ask, lost)
    # A copy that is the server now may have been a step behind the others.
    return len({reply.version for reply in replies}) > 1 and settle_former(server_set, worker)


def _asked(server_set: ServerSet, headers: Sequence[ps_pb2.NormRequest.Header]) -> list[Any]:
    calls = calls_to(
        server_set,
        "Norm",
        [(header, ()) for header in headers],
        step_timeout_s() + GRACE_S,
        range(len(headers)),
        waits_for_others=True,
    )
    return [reply for reply, _ in results(calls)]


def _settled(ask: Callable[[float | None], list[Any]], push_again: Callable[[], object]) -> tuple[list[Any], float]:
    """What all servers say at last, and the sum. `ask` calls them, with the sum where it is known; `push_again` is for
    servers that lost the push.
    """
    while True:
        replies = ask(None)
        if len({tuple(reply.lives) for reply in replies if reply.lives}) > 1:
            continue  # a worker was started again meanwhile: one server still had what its former life had pushed
        known = [reply.squared_norm for reply in replies if reply.is_sum]
        total = known[0] if known else fsum(reply.squared_norm for reply in replies)
        if not any(reply.is_lost for reply in replies) and not all(reply.HasField("outcome") for reply in replies):
            replies = ask(total)
        if not any(reply.is_lost for reply in replies):
            return replies, total
        push_again()


def _header(caller: ps_pb2.Caller, step: int, sequence: int, total: float | None) -> ps_pb2.NormRequest.Header:
    return ps_pb2.NormRequest.Header(
        caller=caller,
        step=step,
        sequence=sequence,
        is_told=total is not None,
        squared_norm=total or 0.0,
        timeout_ms=int(step_timeout_s() * 1000),
    )
