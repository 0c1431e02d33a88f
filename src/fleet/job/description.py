"""A job whose processes an engine starts: what each of them is told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from fleet import env
from fleet.errors import UsageError
from fleet.net import is_directory

DEFAULT_RECOVERY_S = 300.0
"""How long a process of a durable job may take to be back, where FLEET_RECOVERY_TIMEOUT_S says nothing."""


@dataclass(frozen=True)
class Description:
    """A job of servers and workers, described to whatever starts its processes.

    `servers` are their endpoints or a directory, as FLEET_SERVERS has them, then with `num_servers`. `durable`: the
    folder in which each process finds again what its former lives have kept. `token`: the secret of the job; leave it
    out where the engine brings it to the processes itself. `name`: FLEET_JOB_ID.
    """

    num_workers: int
    servers: str | Sequence[str] = ()
    num_servers: int | None = None
    durable: str | None = None
    token: str | None = field(default=None, repr=False)
    name: str | None = None
    worker_endpoints: Sequence[str] = ()

    def __post_init__(self) -> None:
        for count, what in ((self.num_workers, "num_workers"), (self.num_servers, "num_servers")):
            if count is not None and (type(count) is not int or count < 1):
                raise UsageError(f"{what} must be a whole number >= 1, got {count!r}")
        if self._is_listed and self.num_servers is None:
            raise UsageError(f"servers={self.servers!r} does not say how many there are; give num_servers")
        if not self.servers and (self.num_servers or self.durable):
            raise UsageError("num_servers and durable are of jobs with servers; say where they are: servers=...")

    @property
    def _is_listed(self) -> bool:
        return isinstance(self.servers, str) and is_directory(self.servers)

    def variables(self, role: str, index: int, *, life: int | None = None) -> dict[str, str]:
        """What the process with this role (`server` or `worker`) and index finds in its environment.

        `life`: how often the engine has started it before, where it counts that.
        """
        if role not in ("server", "worker"):
            raise UsageError(f"role must be 'server' or 'worker', got {role!r}")
        servers = self.servers if isinstance(self.servers, str) else ",".join(self.servers)
        told: dict[env.EnvVariable[str] | env.EnvVariable[int], object] = {
            env.FLEET_ROLE: role,
            env.FLEET_INDEX: index,
            env.FLEET_WORKERS: self.num_workers,
            env.FLEET_SERVERS: servers or None,
            env.FLEET_SERVER_NUM: self.num_servers,
            env.FLEET_WORKER_ENDPOINTS: ",".join(self.worker_endpoints) or None,
            env.FLEET_DURABLE: self.durable,
            env.FLEET_JOB_TOKEN: self.token,
            env.FLEET_JOB_ID: self.name,
            env.FLEET_LIFE: life,
        }
        return {variable.name: str(value) for variable, value in told.items() if value is not None}

    def become(self, role: str, index: int, *, life: int | None = None) -> None:
        """Make this process the one with this role and index: before `fleet.init()`, or a `fleet.ps.Server`."""
        env.become(env.without_roles(env.inherited()) | self.variables(role, index, life=life))

    @staticmethod
    def server_command() -> list[str]:
        """What runs a server in a process of its own, which finds the rest in its environment."""
        return [sys.executable, "-m", "fleet.ps.server"]
