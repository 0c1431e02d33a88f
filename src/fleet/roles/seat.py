"""Where a worker sits, which machine and which seat on it; and where the workers meet: MASTER_ADDR and MASTER_PORT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from fleet import env
from fleet.env import Environ, EnvVariable
from fleet.errors import RoleError, VariableError
from fleet.net import Endpoint, parse_endpoints
from fleet.roles.base import Identity


class Seat(NamedTuple):
    """A seat in the job, under the names an Identity has for it."""

    local_rank: int = 0
    num_local_workers: int = 1
    node_index: int = 0
    num_nodes: int = 1

    def given_to(self, who: Identity) -> Identity:
        """`who` on this seat; RoleError for one that does not exist, or two workers might share a GPU."""
        if self.local_rank >= self.num_local_workers:
            raise RoleError(
                f"{who.source}: local rank {self.local_rank} does not fit a machine with "
                f"{self.num_local_workers} worker(s)"
            )
        if self.node_index >= self.num_nodes:
            raise RoleError(
                f"{who.source}: machine {self.node_index} does not fit a job on {self.num_nodes} machine(s)"
            )
        return replace(who, **self._asdict())


def seat_among(hosts: Sequence[str], index: int) -> Seat:
    """The seat of worker `index`, when `hosts` names the machine of each worker.

    >>> seat_among(["a", "a", "b"], 1)
    Seat(local_rank=1, num_local_workers=2, node_index=0, num_nodes=2)
    """
    own = hosts[index]
    machines = list(dict.fromkeys(hosts))
    return Seat(hosts[:index].count(own), hosts.count(own), machines.index(own), len(machines))


def seat_of(who: Identity, local_rank: int | None, environ: Environ | None) -> Seat:
    """The seat of a worker by the addresses of all; of workers that do not listen, alone unless LOCAL_WORLD_SIZE says.

    `local_rank`, where something says it, counts rather than what the addresses say.
    """
    if who.worker_endpoints:
        seat = seat_among([worker.host for worker in who.worker_endpoints], who.index)
        return seat if local_rank is None else seat._replace(local_rank=local_rank)
    local_rank = local_rank or 0
    return Seat(local_rank, env.LOCAL_WORLD_SIZE.get(environ) or local_rank + 1)


def listed_workers(variable: EnvVariable[str], environ: Environ | None) -> tuple[Endpoint, ...]:
    """The workers that a variable lists; none where it is not set."""
    text = variable.get(environ)
    return () if text is None else parse_endpoints(text, variable.name)


def master(environ: Environ | None) -> Endpoint | None:
    """The endpoint, or None unless both variables are set: one alone proves nothing."""
    host, port = env.MASTER_ADDR.get(environ), env.MASTER_PORT.get(environ)
    return None if host is None or port is None else master_endpoint(host, port)


def refuse_half(environ: Environ | None) -> None:
    """Raise if one variable is set without the other, for sources that cannot do with half."""
    host, port = env.MASTER_ADDR, env.MASTER_PORT
    for given, missing in ((host, port), (port, host)):
        if given.text(environ) and not missing.text(environ):
            raise VariableError(
                missing.name,
                f"is not set; {given.name}={given.text(environ)} is one half of where the workers meet",
            )


def master_endpoint(host: str, port: int) -> Endpoint:
    """A checked endpoint whose error names the variables."""
    return Endpoint.parse(f"{host}:{port}", "MASTER_ADDR:MASTER_PORT")
