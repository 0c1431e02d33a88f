"""A parameter server as an object, for any process: an actor, a thread, a program of one's own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fleet import env
from fleet.errors import NotReadyError, UsageError
from fleet.jobfiles.layouts import server_folder
from fleet.net import LOOPBACK, Directory, Endpoint
from fleet.ps.server.place import ServerPlace, own_place
from fleet.ps.server.serving import GRACE_S, Serving
from fleet.ps.wire.trust.own_token import check_exposure, token_for

if TYPE_CHECKING:
    from fleet.ps.server.service import Service

_LOOK_S = 0.1


class Server:
    """A parameter server in this process; it knows no model, for workers tell it which tables to make.

        server = fleet.ps.Server(0, endpoint="10.0.0.1:0", token=secret, journal="/data/job")
        print(server.start())  # 10.0.0.1:41233: it serves, with all that a former life has kept
        server.wait()  # until every worker has left
        server.stop()

    It takes no signals and ends no process: `start` and `wait` raise what goes wrong. One process may have several;
    all are of one job, for FLEET_DURABLE and FLEET_TLS_CERT are those of the process.
    """

    def __init__(
        self,
        index: int = 0,
        *,
        endpoint: str | None = None,
        token: str | None = None,
        journal: str | os.PathLike[str] | None = None,
        directory: Directory | None = None,
        device: str = "cpu",
        model_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """`index` is its number among the servers of the job.

        `endpoint`: the HOST:PORT where it listens; port 0 is one that the system chooses, 127.0.0.1:0 the default.
        `token`: the secret of the job; by default FLEET_JOB_TOKEN or, on loopback, that of the user.
        `journal`: the folder of the job (FLEET_DURABLE is the default, and is set by this): what the server knows
        outlives it there, in `server-INDEX`. `directory` is told where it listens. `device`: where dense parameters
        live. `model_dir`: a checkpoint to begin with.
        """
        where = Endpoint(LOOPBACK, 0) if endpoint is None else Endpoint.parse(endpoint, "endpoint", any_port=True)
        self._place = ServerPlace(index, where, directory)
        self._token = token_for(where) if token is None else token
        check_exposure(where, self._token, False)
        if journal is not None:
            _be_durable(journal)
        self._device = device
        self._model_dir = model_dir
        self._serving: Serving | None = None
        self._service: Service | None = None

    @classmethod
    def from_environment(cls, *, device: str = "cpu") -> Server:
        """The server that the variables of this process describe: FLEET_ROLE=server, FLEET_INDEX and so on."""
        place = own_place()
        return cls(place.index, endpoint=str(place.endpoint), directory=place.directory, device=device)

    def start(self) -> str:
        """Take up what the journal has, listen, and tell the directory; returns its HOST:PORT.

        CheckpointError or UsageError where the journal is damaged or of another job, EndpointError where the port is
        taken: none is mended by another try.
        """
        from fleet.ps.server.process import open_service

        if self._serving is not None:
            return str(self._serving.endpoint)
        place = self._place
        name = server_folder(place.index, 0)
        service = open_service(name, place.endpoint, device=self._device, model_dir=self._model_dir)
        try:
            serving = Serving(service, place.endpoint, self._token)
            serving.start()
        except BaseException:
            service.close()
            raise
        self._serving = serving
        place.announce(serving.endpoint)
        return str(serving.endpoint)

    @property
    def ready(self) -> bool:
        """Whether workers are served now."""
        return self._serving is not None

    @property
    def endpoint(self) -> str:
        """The HOST:PORT where it listens; NotReadyError before `start`."""
        return str(self._running().endpoint)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until every worker has left; False if that takes longer than `timeout_s`.

        CommunicationError if it must be made anew, because a change that its journal has could not be made.
        """
        serving, deadline = self._running(), None if timeout_s is None else time.monotonic() + timeout_s
        while not (serving.is_over or serving.finished.wait(_LOOK_S)):
            if deadline is not None and time.monotonic() > deadline:
                return False
        return True

    def stop(self, grace_s: float = GRACE_S) -> bool:
        """Take no more calls, let running ones end within `grace_s`, free the port; whether all have ended. Idempotent.

        The journal stays for the next life, unless every worker has left.
        """
        serving, self._serving = self._serving, None
        return serving is None or serving.stop(grace_s)

    def _running(self) -> Serving:
        if self._serving is None:
            raise NotReadyError(f"server {self._place.index} does not serve; call start() first")
        return self._serving


def _be_durable(journal: str | os.PathLike[str]) -> None:
    """Make this process one of a durable job in that folder; UsageError if it is one of another."""
    folder, given = str(Path(journal).absolute()), env.FLEET_DURABLE.get()
    if given is not None and Path(given).absolute() != Path(folder):
        raise UsageError(f"journal={str(journal)!r}, but FLEET_DURABLE={given}; give one of them")
    if env.FLEET_JOURNAL.get() == "OFF":
        raise UsageError(f"journal={str(journal)!r}, but FLEET_JOURNAL=OFF; leave one of them out")
    env.FLEET_DURABLE.put(folder)
