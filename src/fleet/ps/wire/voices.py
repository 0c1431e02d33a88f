"""How a worker finds out what keeps a server from answering."""

from contextlib import suppress
from typing import Any

from fleet.errors import FleetError
from fleet.observe.waits.waiting import Awaited
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import Voice
from fleet.ps.wire.transport import Transport

# How long a server may take to say what it waits for, while it is waited for anyway.
ASK_S = 2.0


def voice_of(transport: Transport, caller: ps_pb2.Caller, method: str, *, waits_for_others: bool) -> Voice:
    """How a worker finds out what keeps a server from answering: other workers, as it says itself, or its own work."""
    return Voice(f"worker {caller.worker}", lambda: _awaited_from(transport, caller, method, waits_for_others))


def _awaited_from(transport: Transport, caller: ps_pb2.Caller, method: str, waits_for_others: bool) -> Awaited:
    if waits_for_others:
        with suppress(FleetError, TimeoutError):
            reply: Any = transport.call("Stats", ps_pb2.StatsRequest.Header(caller=caller), (), ASK_S).result(2 * ASK_S)
            if reply[0].awaited:
                return Awaited(reply[0].awaited, tuple(reply[0].missing))
    return Awaited(f"server {transport.endpoint} to answer {method}", server=transport.endpoint)
