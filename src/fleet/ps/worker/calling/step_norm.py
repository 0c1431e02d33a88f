"""A worker's side of a step whose mean gradient is clipped; `fleet.ps.server.clipping` is the servers' side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from fleet.ps.job.patience import is_durable, rpc_timeout_s, step_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall, results
from fleet.ps.wire.voices import voice_of
from fleet.ps.worker.calling.requests import GRACE_S

if TYPE_CHECKING:
    from fleet.ps.wire.transport import Transport
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.calling.pending import Pending

Outcome = ps_pb2.PushReply.Header


def must_settle(client: Client) -> bool:
    """Whether workers add up the norm of a step: not for a single server that stays alone, which has all of it."""
    return client.job.clips_on_servers and (client.num_servers > 1 or is_durable())


def settle(client: Client, step: int, pushed: Pending) -> list[ps_pb2.PushReply.Header]:
    """Bring a step whose push is under way to its end; returns what each server says of it."""
    pushed.results()

    def ask(total: float | None) -> list[Any]:
        def header(server: int) -> ps_pb2.NormRequest.Header:
            return _header(client.caller(server), step, client.sequence, total)

        return [reply for reply, _ in client.ask("Norm", header, timeout_s=step_timeout_s() + GRACE_S)]

    def push_again() -> None:
        pushed.again()
        pushed.results()

    return _settled(ask, push_again)


def settle_again(
    transports: Sequence[Transport], pushed: Sequence[ps_pb2.PushRequest.Header], push_again: Callable[[], object]
) -> None:
    """Bring a step to its end that a former life of this worker had pushed."""

    def ask(total: float | None) -> list[Any]:
        calls = []
        for transport, one in zip(transports, pushed, strict=True):
            header = _header(one.caller, one.step, one.sequence, total)
            voice = voice_of(transport, one.caller, "Norm", waits_for_others=True)
            calls.append(ServerCall(transport, "Norm", header, (), step_timeout_s() + GRACE_S, rpc_timeout_s(), voice))
        return [reply for reply, _ in results(calls)]

    _settled(ask, push_again)


def _settled(ask: Callable[[float | None], list[Any]], push_again: Callable[[], object]) -> list[Outcome]:
    """`ask` calls all servers, with the sum where it is known; `push_again` is for servers that lost the push."""
    while True:
        replies = ask(None)
        if not any(reply.is_lost for reply in replies) and not all(reply.HasField("outcome") for reply in replies):
            known = [reply.squared_norm for reply in replies if reply.is_sum]
            replies = ask(known[0] if known else fsum(reply.squared_norm for reply in replies))
        if not any(reply.is_lost for reply in replies):
            return [reply.outcome for reply in replies]
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
