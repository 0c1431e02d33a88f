"""The contract of a role: who a process is (`Identity`), and the object that finds out (`RoleMaker`).

An `Identity` is plain frozen data. A role maker computes it once, on first use, from whatever it knows (the
environment, MPI, the user's arguments) and answers questions about it. Role makers import no torch and listen
nowhere; one that had to choose a port itself (MPI) holds it until `close()`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass

from fleet.errors import RoleError
from fleet.net import Endpoint, Hold


class Role(enum.IntEnum):
    """What a process does in a job."""

    WORKER = 1
    SERVER = 2


@dataclass(frozen=True)
class Rendezvous:
    """Where the workers of a job meet for the first time."""

    endpoint: Endpoint
    is_hosted: bool = False
    """Somebody else (torchrun's agent) listens there already; otherwise worker 0 does."""


@dataclass(frozen=True)
class Identity:
    """Who a process is. Checked when made: an Identity that exists is consistent."""

    role: Role
    index: int
    """Position among the processes of the same role, from 0."""
    num_workers: int
    source: str
    """What said so, for error messages: `torchrun (RANK, WORLD_SIZE)`."""
    server_endpoints: tuple[Endpoint, ...] = ()
    worker_endpoints: tuple[Endpoint, ...] = ()
    """One for each worker, or empty where workers do not listen."""
    rendezvous: Rendezvous | None = None
    """None where nothing says it: then the workers cannot talk to each other."""
    local_rank: int = 0
    num_local_workers: int = 1
    node_index: int = 0
    num_nodes: int = 1
    holds_port: bool = False
    """A server whose role maker has taken its port already, and keeps it until `close()`."""

    def __post_init__(self) -> None:
        num_peers = self.num_workers if self.role is Role.WORKER else self.num_servers
        name = self.role.name.lower()
        if self.num_workers < 1:
            raise RoleError(f"{self.source}: the number of workers must be >= 1, got {self.num_workers}")
        if not 0 <= self.index < num_peers:
            remedy = f"give it one from 0 to {num_peers - 1}" if num_peers else "name the endpoint of every server"
            raise RoleError(
                f"{self.source}: {name} index {self.index} does not fit a job of {num_peers} {name}s; {remedy}"
            )
        if self.worker_endpoints and len(self.worker_endpoints) != self.num_workers:
            raise RoleError(
                f"{self.source}: {len(self.worker_endpoints)} worker endpoints for {self.num_workers} "
                "workers; name one endpoint for each worker"
            )

    @property
    def name(self) -> str:
        """`worker 0`, `server 3`: as logs, reports and errors call this process."""
        return f"{self.role.name.lower()} {self.index}"

    @property
    def num_servers(self) -> int:
        """How many servers the job has."""
        return len(self.server_endpoints)


class RoleMaker(ABC):
    """Finds out who this process is, and answers for it.

    Subclasses implement `_generate()`, which is called once, on the first question or by `generate_role()`.
    """

    is_collective: bool = False
    """Whether it was made for a job of workers alone, which join each other in `fleet.init()`."""

    # On the class, so that a subclass may do without super().__init__().
    _identity: Identity | None = None
    _hold: Hold | None = None

    @abstractmethod
    def _generate(self) -> Identity:
        """Work out the identity; raise RoleError with the remedy if that cannot be done."""

    @property
    def identity(self) -> Identity:
        """Who this process is; worked out when it is first asked for."""
        if self._identity is None:
            self._identity = self._generate()
        return self._identity

    def generate_role(self) -> None:
        """Work out the identity now; calling it again changes nothing."""
        _ = self.identity

    def close(self) -> None:
        """Give back the ports this role maker holds; calling it again changes nothing."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self.identity.role is Role.WORKER

    def is_server(self) -> bool:
        """Whether this process holds parameters."""
        return self.identity.role is Role.SERVER

    def is_first_worker(self) -> bool:
        """Whether this process is worker 0."""
        return self.is_worker() and self.identity.index == 0

    def worker_index(self) -> int:
        """Index among the workers; on a server, the server's index (as in PaddlePaddle)."""
        return self.identity.index

    def server_index(self) -> int:
        """Index among the servers; on a worker, the worker's index (as in PaddlePaddle)."""
        return self.identity.index

    def worker_num(self) -> int:
        """Number of workers in the job."""
        return self.identity.num_workers

    def server_num(self) -> int:
        """Number of servers in the job."""
        return self.identity.num_servers

    def get_trainer_endpoints(self) -> list[str]:
        """HOST:PORT of every worker, by index."""
        return [str(endpoint) for endpoint in self.identity.worker_endpoints]

    def get_pserver_endpoints(self) -> list[str]:
        """HOST:PORT of every server, by index."""
        return [str(endpoint) for endpoint in self.identity.server_endpoints]

    def to_string(self) -> str:
        """Everything known about this process, on one line."""
        who = self.identity
        return (
            f"role: {who.role.name.lower()}, index: {who.index}, workers: {who.num_workers}, "
            f"worker endpoints: {self.get_trainer_endpoints()}, "
            f"server endpoints: {self.get_pserver_endpoints()}, from: {who.source}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()" if self._identity is None else f"{type(self).__name__}({self.to_string()})"
