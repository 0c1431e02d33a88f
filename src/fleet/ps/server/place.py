"""Which server of its job a process is, where it listens, and who is told."""

from __future__ import annotations

from dataclasses import dataclass

from fleet import env, roles
from fleet.errors import UsageError
from fleet.jobfiles.terms import own_copy
from fleet.net import Directory, Endpoint, Listed, outward_address


@dataclass(frozen=True)
class ServerPlace:
    """One server's place in its job."""

    index: int
    endpoint: Endpoint
    """Where it listens; port 0 is one that the system chooses."""
    directory: Directory | None = None
    """Whom it tells where that is."""

    @classmethod
    def of(cls, who: roles.Identity) -> ServerPlace:
        """The place of a server that knows its role.

        One that a directory lists listens at POD_IP, else at the address that other machines reach, on any port.
        """
        place = who.server_endpoints[who.index]
        if not isinstance(place, Listed):
            return cls(who.index, place)
        host = env.POD_IP.get() or outward_address()
        return cls(who.index, Endpoint.parse(f"{host}:0", "POD_IP", any_port=True), place.directory)

    def announce(self, endpoint: Endpoint) -> None:
        """Say where it listens now."""
        if self.directory is not None:
            self.directory.announce(self.index, endpoint)


def own_place() -> ServerPlace:
    """The place that the environment gives this server, or this copy of one, which is in no list of servers."""
    if (copied := own_copy()) is not None:
        host = env.POD_IP.require("a copy of a server needs its address")
        port = env.PADDLE_PORT.require("a copy of a server needs its port")
        return ServerPlace(copied, Endpoint.parse(f"{host}:{port}"))
    maker = roles.discover()
    try:
        who = maker.identity
        if who.role is not roles.Role.SERVER:
            raise UsageError(
                f"this process is no server ({who.source} says {who.name}); pass --endpoint HOST:PORT, or set "
                "FLEET_ROLE=server, FLEET_INDEX, FLEET_SERVERS and FLEET_WORKERS"
            )
        return ServerPlace.of(who)
    finally:
        maker.close()
