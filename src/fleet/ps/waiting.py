"""What a worker that waits for the others waits for: as a server knows it, and as a worker asks for it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fleet.errors import FleetError
from fleet.jobfiles.joining import unstopped_text
from fleet.observe.waits.waiting import Awaited, workers_text
from fleet.ps.calls import Voice
from fleet.ps.patience import longest_wait_s
from fleet.ps.proto import ps_pb2

if TYPE_CHECKING:
    from fleet.ps.holdings import Holdings
    from fleet.ps.rounds import Rounds
    from fleet.ps.transport import Transport

# How long a server may take to say what it waits for, while it is waited for anyway.
ASK_S = 2.0


def awaited_by_all(holdings: Holdings, rounds: Rounds) -> Awaited:
    """What the present step lacks; nothing outside synchronous mode, once dense parameters have values."""
    if not holdings.is_started:
        return Awaited("worker 0 to send the first values of the dense parameters", (0,))
    missing = tuple(rounds.missing()) if holdings.job.mode == "sync" else ()
    if not missing:
        return Awaited("")
    return Awaited(f"the gradients of {workers_text(missing)}, step {rounds.version}", missing)


def too_late(holdings: Holdings, rounds: Rounds, timeout_ms: int) -> str:
    """The error of a wait that ran out."""
    waited = f"waited {min(timeout_ms / 1000, longest_wait_s()):g} s"
    if not holdings.is_started:
        return f"{waited} for {awaited_by_all(holdings, rounds).what}"
    missing = ", ".join(map(str, rounds.missing()))
    return (
        f"{waited} for step {rounds.version}: no gradients from worker {missing}. Is it slow or gone? "
        "FLEET_STEP_TIMEOUT_S sets how long to wait"
    )


def forsaken(holdings: Holdings, rounds: Rounds) -> str | None:
    """The error of a wait for workers of whom some have ended without taking leave; None if all are there."""
    if not rounds.gone:
        return None
    missing = [worker for worker in awaited_by_all(holdings, rounds).workers if worker in rounds.gone]
    if not missing:
        return None
    return unstopped_text(workers_text(missing))


def voice_of(transport: Transport, caller: ps_pb2.Caller, method: str, *, waits_for_others: bool) -> Voice:
    """How a worker finds out what keeps a server from answering: other workers, as it says itself, or its own work."""
    return Voice(f"worker {caller.worker}", lambda: _awaited_from(transport, caller, method, waits_for_others))


def _awaited_from(transport: Transport, caller: ps_pb2.Caller, method: str, waits_for_others: bool) -> Awaited:
    if waits_for_others:
        if (found := transport.awaited(caller)) is not None:
            return found
        with suppress(FleetError, TimeoutError):
            reply: Any = transport.call("Stats", ps_pb2.StatsRequest.Header(caller=caller), (), ASK_S).result(2 * ASK_S)
            if reply[0].awaited:
                return Awaited(reply[0].awaited, tuple(reply[0].missing))
    return Awaited(f"server {transport.endpoint} to answer {method}", server=transport.endpoint)
