"""A service and the ways in that lead to it, in any process: both begin together and end together.

It takes no signal and ends no process; `process` does that for a program, `server` makes an object of it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from fleet import env
from fleet.errors import CommunicationError
from fleet.net import Endpoint, is_loopback
from fleet.ps.server.figures import tell_last, watch
from fleet.ps.wire.transport import Handler

if TYPE_CHECKING:
    from fleet.ps.server.plane_server import PlaneServer
    from fleet.ps.wire.trust.tls import Tls

SHORT_TOKEN = 16
GRACE_S = 3.0
"""How long running calls may take to finish when the server is told to stop; fleetrun waits longer."""

_log = logging.getLogger("fleet.ps.server")


class Serving:
    """One service, served from `start` to `stop`."""

    def __init__(
        self,
        service: Handler,
        endpoint: Endpoint,
        token: str | None,
        *,
        allow_anonymous: bool = False,
        is_held: bool = False,
    ) -> None:
        """`is_held`: this process holds the port already. Port 0 is one that the system chooses."""
        from fleet.ps.server.grpc_server import GrpcServer  # only after `process.main` has told gRPC to be quiet
        from fleet.ps.wire.trust.tls import Tls

        if token and len(token) < SHORT_TOKEN and not is_loopback(endpoint.host):
            _log.warning(
                "FLEET_JOB_TOKEN has %d characters, which others may guess; openssl rand -hex 32 makes a good one",
                len(token),
            )
        self._service = service
        self._token = token
        self._tls = Tls.from_environment()
        self._grpc = GrpcServer(
            service, endpoint, token, allow_anonymous=allow_anonymous, is_held=is_held, tls=self._tls
        )
        self._plane: PlaneServer | None = None
        self.finished: threading.Event = getattr(service, "finished", None) or threading.Event()
        """Set while no worker is left."""
        self._broken: threading.Event = getattr(service, "broken", None) or threading.Event()
        standby = getattr(service, "standby", None)
        self._deposed: threading.Event = threading.Event() if standby is None else standby.ended

    @property
    def address(self) -> Endpoint:
        """Where it listens."""
        return self._grpc.address

    @property
    def endpoint(self) -> Endpoint:
        """By which name others call it."""
        return self._grpc.endpoint

    def start(self) -> None:
        """Listen; EndpointError if the port cannot be had."""
        watch(self._service, self._grpc.refused)
        self._grpc.start()
        self._plane = _data_plane(self._service, self.address, self._token, self._tls)

    @property
    def is_over(self) -> bool:
        """Whether it ends whoever is left: another took its place. CommunicationError where it must start again."""
        if self._broken.is_set():
            raise CommunicationError("a change that is in the journal failed half-way; this server starts again")
        return self._deposed.is_set()

    def stop(self, grace_s: float = GRACE_S) -> bool:
        """Take no more calls, give running ones `grace_s` to end, let the journal go; whether all have ended."""
        if (close := getattr(self._service, "close", None)) is not None:
            close()
        if self._plane is not None:
            self._plane.stop()
        is_clean = self._grpc.stop(grace_s)
        tell_last()  # fleetrun ends servers when the workers are gone, and from here on that is at once
        return is_clean


def _data_plane(service: Handler, endpoint: Endpoint, token: str | None, tls: Tls | None) -> PlaneServer | None:
    """The data plane beside gRPC; None where gRPC does everything."""
    from fleet.ps.server.plane_server import PlaneServer
    from fleet.ps.server.service import Service

    if not isinstance(service, Service) or env.FLEET_LOCAL_TRANSPORT.get() == "GRPC":
        return None
    try:
        return PlaneServer(service, endpoint, token, tls)
    except OSError as error:
        _log.warning("no data plane beside %s (%s): pulls and pushes go by gRPC, which is slower", endpoint, error)
        return None
