"""A service that is served in this process by gRPC and by its data plane, and workers that reach it in each way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fleet.net import LOOPBACK, Endpoint
from fleet.ps.server.grpc_server import GrpcServer
from fleet.ps.server.plane_server import PlaneServer
from fleet.ps.server.service import Service
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.plane_client import PlaneTransport
from fleet.ps.wire.transport import LocalTransport, Transport
from fleet.ps.wire.trust.plane_tls import PlaneTls
from fleet.ps.wire.trust.tls import Tls
from support.certificates import minted
from support.serving.serving import TOKEN

PLANES = ("SHM", "UNIX", "TCP", "TLS")
KINDS = ("LOCAL", "GRPC", *PLANES)


@dataclass
class Served:
    """One service, and how a worker reaches it."""

    kind: str
    service: Service
    grpc: GrpcServer | None = None
    plane: PlaneServer | None = None
    tls: Tls | None = None
    transports: list[Transport] = field(default_factory=list)

    def transport(self) -> Transport:
        """A worker's view of it."""
        made: Transport = LocalTransport(self.service)
        if self.grpc is not None:
            made = GrpcTransport(str(self.grpc.endpoint), TOKEN, self.tls)
            if self.kind != "GRPC":
                made = plane_transport(made, self.kind, tls=self.tls)
        self.transports.append(made)
        return made

    def stop_plane(self) -> None:
        """Without a word; gRPC goes on."""
        assert self.plane is not None
        self.plane.stop()
        self.plane = None

    def start_plane(self) -> None:
        """Beside gRPC, which is there already."""
        assert self.grpc is not None
        self.plane = PlaneServer(self.service, self.grpc.address, TOKEN, self.tls)


def plane_transport(inner: Transport, kind: str, token: str | None = TOKEN, tls: Tls | None = None) -> PlaneTransport:
    """A worker's view of a server by one kind of data plane."""
    before = os.environ.get("FLEET_LOCAL_TRANSPORT")
    os.environ["FLEET_LOCAL_TRANSPORT"] = "TCP" if kind == "TLS" else kind
    try:
        return PlaneTransport(inner, token, None if tls is None else PlaneTls(tls))
    finally:
        del os.environ["FLEET_LOCAL_TRANSPORT"]
        if before is not None:
            os.environ["FLEET_LOCAL_TRANSPORT"] = before


@contextmanager
def served(kind: str, service: Service | None = None, endpoint: Endpoint | None = None) -> Iterator[Served]:
    """A service in this process, as a server's process has it; by the kind TLS its whole job speaks that."""
    one = Served(kind, service or Service(), tls=minted() if kind == "TLS" else None)
    if kind != "LOCAL":
        one.grpc = GrpcServer(one.service, endpoint or Endpoint(LOOPBACK, 0), TOKEN, tls=one.tls)
        one.grpc.start()
        if kind != "GRPC":
            one.start_plane()
    try:
        yield one
    finally:
        one.service.close()
        for transport in one.transports:
            transport.close()
        if one.plane is not None:
            one.plane.stop()
        if one.grpc is not None:
            assert one.grpc.stop(1.0), "calls still run"
