"""Whether another machine can be reached, as this one's kernel sees it, and how long one that cannot is waited for.

A process that ends closes its connections, and that is heard at once. A network that breaks says nothing: so the kernel
asks the other one every second whether it is there. It answers for its processes, also for one that is stopped.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from fleet import env
from fleet.job.description import DEFAULT_RECOVERY_S

PROBE_S = 1
SUSPECT_S = 4.0
"""How long a connection is silent before another one is tried, and the log says so."""
SLIP_S = 3.0
"""How long one whose connection was closed from outside may take to come back; one that has ended does not."""
_LEAST_S = 5.0 * PROBE_S
_RPC_TIMEOUT_S = 60.0
_LOST_S = 10.0
_LAST_DATA_AND_ACK = struct.Struct("=52xII")
"""In the kernel's `struct tcp_info`: milliseconds since the other side sent data, and since it acknowledged any."""


@dataclass(frozen=True)
class Patience:
    """How long a machine that cannot be reached is waited for: as long as calls to a server there are sent again."""

    seconds: float
    variable: str
    keeps_seats: bool = False
    """Whether a machine that has ended may come back as long, into the round that runs, to what it has on its disk."""

    def __str__(self) -> str:
        return f"{self.seconds:g} s ({self.variable})"

    @classmethod
    def of_job(cls, *, is_durable: bool, has_copies: bool = False) -> Patience:
        """What the variables say; VariableError if they are malformed."""
        if has_copies:  # which take over, so nobody need wait for long
            variable = env.FLEET_MACHINE_TIMEOUT_S
            return cls(max(variable.get() or _LOST_S, _LEAST_S), variable.name)
        variable, default_s = env.FLEET_RPC_TIMEOUT_S, _RPC_TIMEOUT_S
        if is_durable or env.FLEET_DURABLE.get() is not None:
            variable, default_s = env.FLEET_RECOVERY_TIMEOUT_S, DEFAULT_RECOVERY_S
        return cls(max(variable.get() or default_s, _LEAST_S), variable.name, is_durable)


def probe(connection: socket.socket, patience: Patience) -> None:
    """Let the kernel ask, from now on; it does not give the connection up before we do."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    # Instead of a number of probes, and for data that nobody acknowledges, which stops the probes.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * (patience.seconds + _LEAST_S)))


def silent_s(connection: socket.socket) -> float:
    """For how long nothing has come from the machine at the other end, not even an answer to a probe."""
    if connection.family == socket.AF_UNIX:
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_AND_ACK.size)
    except OSError:  # closed; that is heard elsewhere
        return 0.0
    data_ms, ack_ms = _LAST_DATA_AND_ACK.unpack(info)
    return float(min(data_ms, ack_ms)) / 1000
