"""Where the processes of a job listen, and what a machine needs before that is known: the contract with `meet`.

find_needs(options, machine) -> Needs                here: which ports, and whether others must be met
agree(needs, team, holds) -> JobLayout               in `meet`: ports are held, the machines have met
make_plan(options, machine, layout) -> LaunchPlan    here again: the processes of this machine
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleet.launch.arguments.options import Nodes
from fleet.net import Endpoint

THE_MEETING_S = ""
"""The host of a port that is to be held at the address by which the meeting point knows this machine."""


@dataclass(frozen=True)
class Ports:
    """What the processes of one machine listen at; until it is held, port 0 stands for any."""

    servers: tuple[Endpoint, ...] = ()
    workers: tuple[Endpoint, ...] = ()
    master: Endpoint | None = None
    """Where scripts that are not ours meet: MASTER_ADDR and MASTER_PORT of a collective job."""
    copies: tuple[Endpoint, ...] = ()
    """Where copies of the servers of the machine before this one listen, in a job whose servers have copies."""

    @classmethod
    def anywhere(cls, host: str, num_servers: int, num_workers: int) -> Ports:
        """Ports that the operating system chooses; without servers one is for the master."""
        free = Endpoint(host, 0)
        return cls((free,) * num_servers, (free,) * num_workers, None if num_servers else free)

    def at(self, host: str) -> Ports:
        """The same ports, those of no known host at this one."""

        def there(endpoint: Endpoint) -> Endpoint:
            return endpoint if endpoint.host != THE_MEETING_S else replace(endpoint, host=host)

        master = None if self.master is None else there(self.master)
        servers, workers, copies = (tuple(map(there, some)) for some in (self.servers, self.workers, self.copies))
        return Ports(servers, workers, master, copies)


@dataclass(frozen=True)
class MeetingPlace:
    """Where the machines of a job meet, and what must be the same on all of them."""

    point: Endpoint
    nodes: Nodes
    rank: int | None
    """Which of the machines this one is; None: as they come."""
    terms: str
    """In words, for the machine that is refused."""


@dataclass(frozen=True)
class JobLayout:
    """All endpoints of a job, and which of them are this machine's."""

    servers: tuple[Endpoint, ...]
    workers: tuple[Endpoint, ...]
    local_servers: tuple[int, ...]
    local_workers: tuple[int, ...]
    master: Endpoint | None
    """Where scripts that are not ours meet: MASTER_ADDR and MASTER_PORT of a collective job."""
    node_index: int = 0
    num_nodes: int = 1
    number: int = 0
    """Which layout of servers of a durable job it is (fleet.jobfiles.layouts)."""

    @property
    def host(self) -> str:
        """This machine's address in the job."""
        mine = [self.servers[i] for i in self.local_servers] + [self.workers[i] for i in self.local_workers]
        return mine[0].host

    @property
    def peers(self) -> tuple[str, ...]:
        """The addresses of the other machines."""
        listed = dict.fromkeys(endpoint.host for endpoint in (*self.servers, *self.workers))
        return tuple(host for host in listed if host != self.host)


@dataclass(frozen=True)
class Needs:
    """What a machine must have before its processes can be planned."""

    ports: Ports
    """What it is to hold."""
    meeting_place: MeetingPlace | None = None
    """Where it meets the others; None on a single machine."""
    layout: JobLayout | None = None
    """Where the arguments name every endpoint; None: the ports that were held decide."""
