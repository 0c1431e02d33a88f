"""Faults that a process does to itself, because `fleetrun --chaos` asked for them in FLEET_CHAOS; without it, none.

A worker harms its calls, a server its journal. What does it is `fleet_tools.chaos.faults`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fleet import env
from fleet._lazy import tool
from fleet.ps.wire.transport import Transport


def _own() -> Any:
    return None if env.FLEET_CHAOS.text() is None else tool("chaos_faults")


def with_faults(transports: Sequence[Transport]) -> Sequence[Transport]:
    """The transports to all servers, by index; under chaos each loses, repeats and delays calls, and counts pushes."""
    found: Sequence[Transport] = transports if (own := _own()) is None else own.with_faults(transports)
    return found


def with_faults_of_copy(transport: Transport, server: int) -> Transport:
    """The transport by which a copy follows its server, likewise."""
    found: Transport = transport if (own := _own()) is None else own.with_faults_of_copy(transport, server)
    return found


def of_writes() -> Callable[[int], int | None] | None:
    """What a journal asks before each write; None where every write shall succeed."""
    asked: Callable[[int], int | None] | None = None if (own := _own()) is None else own.of_writes()
    return asked


def note_serving() -> None:
    """Note for the report of chaos that this server serves."""
    if (own := _own()) is not None:
        own.note("serving")
