"""The servers of a job: how one serves, and how a worker reaches them; without any, one is in the worker's process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from fleet import env
from fleet.errors import RoleError, UsageError
from fleet.jobfiles.kept import counted_life
from fleet.jobfiles.layouts import own_layout, server_folder
from fleet.jobfiles.terms import own_whereabouts
from fleet.net import Endpoint, parse_place
from fleet.ps.job.native_threads import use_native_threads
from fleet.ps.wire.transport import LocalTransport, Transport
from fleet.ps.worker.life.progress import ScriptProgress
from fleet.roles import Role

if TYPE_CHECKING:
    from fleet.ps.server.service import Service
    from fleet.roles import Identity

_log = logging.getLogger(__name__)

CLOSING_S = 30.0
"""How long a server in another thread may take to end."""


def server_device() -> str:
    """Where a server of this process keeps dense parameters: what fleetrun said."""
    return "cuda" if env.FLEET_DEVICE.get() == "CUDA" else "cpu"


def transports(endpoints: Sequence[str], num_workers: int, model_dir: str | None) -> Sequence[Transport]:
    """A transport to each server, over which nothing is sent yet; without servers, one in this process.

    The one in this process begins with the checkpoint `model_dir`, if that is given.
    """
    use_native_threads()
    if endpoints:
        from fleet.ps.wire.faults import with_faults
        from fleet.ps.wire.grpc_client import GrpcTransport
        from fleet.ps.wire.listed_transport import reached
        from fleet.ps.wire.plane_client import PlaneTransport
        from fleet.ps.wire.trust.own_token import token_for
        from fleet.ps.wire.trust.plane_tls import PlaneTls
        from fleet.ps.wire.trust.tls import Tls

        tls = Tls.from_environment()
        plane_tls = None if tls is None else PlaneTls(tls)

        def reach(where: Endpoint) -> Transport:
            token = token_for(where)
            return PlaneTransport(GrpcTransport(str(where), token, tls), token, plane_tls)

        return with_faults([reached(parse_place(endpoint), reach) for endpoint in endpoints])
    if num_workers > 1:
        raise UsageError(
            f"this job has {num_workers} workers and no servers, so each would train parameters of its own; start it "
            "with servers: fleetrun --server_num 2 --worker_num 2 train.py"
        )
    from fleet.ps.server.figures import watch
    from fleet.ps.server.service import Service

    service = Service(model_dir=model_dir)
    watch(service)
    return [_OwnServer(service)]


class _OwnServer(LocalTransport):
    """The server of a job that has no others."""

    service: Service

    def close(self) -> None:
        """The worker has left: what it changed last is published, if it is."""
        self.service.publishing.close()


class Servers:
    """The servers as one process of the job sees them."""

    def __init__(self, who: Identity) -> None:
        self.who = who
        self.layout = own_layout()
        """The number of these servers' layout or term, see fleet.jobfiles."""
        self.refresh()
        self.model_dir: str | None = None
        """The checkpoint that a server of this process begins with."""
        self._closed = threading.Event()
        self._ended: threading.Event | None = None
        self.progress: ScriptProgress | None = None
        """Where this worker is, for its next life; None if it will have none."""
        folder = env.FLEET_DURABLE.get()
        if folder is not None and who.role is Role.WORKER and who.server_endpoints:
            own = Path(folder) / f"worker-{who.index}"
            self.progress = ScriptProgress(own)
            if life := counted_life(own):
                _log.info("this is life %d of %s", life + 1, who.name)

    def begin_with(self, model_dir: str | PathLike[str] | None) -> None:
        """Choose the checkpoint; on a server, or where the server will be in this process."""
        if self.who.server_endpoints:
            self._require_server("fleet.init_server()")
        self.model_dir = None if model_dir is None else str(model_dir)

    def run(self) -> None:
        """Serve until every worker has left."""
        self._require_server("fleet.run_server()")
        self._ended = threading.Event()
        try:
            self._serve()
        finally:
            self._ended.set()

    def _serve(self) -> None:
        from fleet.ps.server.place import ServerPlace
        from fleet.ps.server.process import make_service, serve
        from fleet.ps.wire.trust.own_token import token_for

        place = ServerPlace.of(self.who)
        name, endpoint = server_folder(place.index, own_layout()), place.endpoint
        service = make_service(name, endpoint, device=server_device(), model_dir=self.model_dir)
        serve(
            service,
            endpoint,
            token_for(endpoint),
            is_held=self.who.holds_port,
            closed=self._closed,
            announce=place.announce,
        )

    def close(self) -> None:
        """Stop the server that another thread of this process runs, or is about to, and wait until its port is free."""
        self._closed.set()
        if self._ended is not None and not self._ended.wait(CLOSING_S):
            _log.warning("%s does not end; its port stays taken until this process does", self.who.name)

    def connect(self) -> Sequence[Transport]:
        """One transport per server. Nothing is sent yet."""
        return transports([str(one) for one in self.who.server_endpoints], self.who.num_workers, self.model_dir)

    def connect_anew(self) -> Sequence[Transport]:
        """One transport per server of today."""
        self.refresh()
        return self.connect()

    def refresh(self) -> None:
        """Find the servers of today, if others have replaced those that this worker was started with."""
        whereabouts = own_whereabouts()
        if whereabouts is None or self.who.role is not Role.WORKER or not self.who.server_endpoints:
            return
        if (present := whereabouts.later(self.layout)) is not None:
            endpoints = tuple(Endpoint.parse(one) for one in present.endpoints)
            self.who, self.layout = replace(self.who, server_endpoints=endpoints), present.number

    @staticmethod
    def reach(endpoints: Sequence[str]) -> Sequence[Transport]:
        """One transport per server of another layout."""
        return transports(endpoints, 1, None)

    def _require_server(self, call: str) -> None:
        if self.who.role is not Role.SERVER:
            raise RoleError(f"{self.who.name} is no server; call {call} where fleet.is_server()")
