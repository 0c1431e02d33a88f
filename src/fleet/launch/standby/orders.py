"""What the meeting point tells the machines of a job with copies, and what they tell it, each time whole.

Whoever missed a message needs only the next one, and whoever takes the place of the meeting point needs only the last
one of each machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from fleet.errors import CommunicationError
from fleet.jobfiles.terms import Term


class ServerSeat(NamedTuple):
    """Where a server or a copy is."""

    machine: int
    endpoint: str


class Post(NamedTuple):
    """Where a worker is."""

    machine: int
    life: int
    """How often it was moved to another machine."""


@dataclass(frozen=True)
class Orders:
    """Who does what from now on: a term, and what each machine has to do for it."""

    number: int
    """The number of the term."""
    is_used: bool
    """Whether every machine has written the term down, so that their processes may go by it."""
    serial: int
    """Grows with all that is told, also within a term."""
    host: int
    """The machine of the meeting point."""
    machines: tuple[int, ...]
    """The machines that the job counts on."""
    servers: tuple[ServerSeat, ...]
    copies: tuple[ServerSeat | None, ...]
    """Copies that may take the place of their servers."""
    since: tuple[int, ...]
    """The term in which each server got this copy, or lost the one before."""
    fills: tuple[int | None, ...]
    """Which machine is to run a copy of each server that has none listed yet."""
    workers: tuple[Post, ...]
    done: tuple[int, ...] = ()
    """Workers that have finished."""
    why: str = ""
    """What has led to the newest term, for the terminal."""

    @property
    def term(self) -> Term:
        """What processes are told."""
        copies = tuple("" if seat is None else seat.endpoint for seat in self.copies)
        return Term(self.number, tuple(seat.endpoint for seat in self.servers), copies)

    @property
    def is_over(self) -> bool:
        """Whether all workers have finished."""
        return len(self.done) == len(self.workers)

    def is_newer(self, other: Orders) -> bool:
        """Whether it was said after `other`."""
        return (self.number, self.serial) > (other.number, other.serial)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Orders:
        """Read what a meeting point said; CommunicationError if it makes no sense."""
        try:
            made = cls(
                **{name: int(data[name]) for name in ("number", "serial", "host")},
                is_used=data["is_used"] is True,
                machines=_numbers(data["machines"]),
                servers=tuple(_seat(one) for one in data["servers"]),
                copies=tuple(None if one is None else _seat(one) for one in data["copies"]),
                since=_numbers(data["since"]),
                fills=tuple(None if one is None else int(one) for one in data["fills"]),
                workers=tuple(Post(*_numbers(one)) for one in data["workers"]),
                done=_numbers(data["done"]),
                why=str(data["why"]),
            )
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise CommunicationError(f"not a list of orders: {error}") from error
        if not len(made.servers) == len(made.copies) == len(made.since) == len(made.fills):
            raise CommunicationError("not a list of orders: its parts differ in length")
        return made


@dataclass(frozen=True)
class MachineAccount:
    """What one machine has, as far as others must know."""

    orders: Orders
    """The newest that it has written down."""
    copies: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """By server the endpoint of its copy that runs here, and the term in which that is whole; 0: not yet."""
    gone: tuple[str, ...] = ()
    """Endpoints of servers here that have died and are not started again."""
    copyless: Mapping[int, int] = field(default_factory=dict)
    """Servers here that wait for their copies in vain, and the newest term that they know."""
    done: tuple[int, ...] = ()
    """Workers here that have finished."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {
            "orders": self.orders.to_json(),
            "copies": [[server, *copy] for server, copy in self.copies.items()],
            "gone": list(self.gone),
            "copyless": [list(item) for item in self.copyless.items()],
            "done": list(self.done),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MachineAccount:
        """Read what another launcher sent; CommunicationError if it makes no sense."""
        try:
            return cls(
                orders=Orders.from_json(data["orders"]),
                copies={int(server): (str(endpoint), int(whole)) for server, endpoint, whole in data["copies"]},
                gone=tuple(map(str, data["gone"])),
                copyless={int(server): int(term) for server, term in data["copyless"]},
                done=_numbers(data["done"]),
            )
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise CommunicationError(f"not a report of a machine: {error}") from error


def new_fills(orders: Orders) -> tuple[int | None, ...]:
    """Who runs copies that are not listed: the machine after the server's, unless another one does already."""

    def fill(server: int) -> int | None:
        home, machines = orders.servers[server].machine, orders.machines
        if orders.copies[server] is not None or machines == (home,):
            return None
        now = orders.fills[server]
        if now is not None and now in machines and now != home:
            return now
        return min((one for one in machines if one > home), default=machines[0])

    return tuple(map(fill, range(len(orders.servers))))


def _seat(data: Any) -> ServerSeat:
    machine, endpoint = data
    return ServerSeat(int(machine), str(endpoint))


def _numbers(data: Any) -> tuple[int, ...]:
    return tuple(map(int, data))
