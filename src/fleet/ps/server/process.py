"""`python -m fleet.ps.server`: a server that knows no model; workers tell it which tables to make.

`fleet.run_server()` in a training script does the same as this command.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fleet import env, roles
from fleet.errors import CommunicationError, FleetError, UsageError
from fleet.jobfiles import chaos_notes
from fleet.jobfiles.job_secret import job_secret
from fleet.jobfiles.layouts import server_folder
from fleet.jobfiles.serving import note_serving
from fleet.jobfiles.terms import own_copy
from fleet.net import Endpoint, is_loopback
from fleet.observe.logs import show_logs
from fleet.ps.server.figures import tell_last, watch
from fleet.ps.server.roots import set_roots
from fleet.ps.wire.transport import Handler
from fleet.ps.wire.trust.own_token import check_exposure, token_for

if TYPE_CHECKING:
    from types import FrameType

    from fleet.ps.server.plane_server import PlaneServer
    from fleet.ps.server.service import Service
    from fleet.ps.wire.trust.tls import Tls

_log = logging.getLogger("fleet.ps.server")  # the same name when this file is the program

SHORT_TOKEN = 16
GRACE_S = 3.0
"""How long running calls may take to finish when the server is told to stop; fleetrun waits longer."""

# How soon a signal or the service's end is noticed; waiting on both at once without a look now and then would need
# a lock inside the signal handler.
_LOOK_S = 0.1

EPILOG = """
\b
Examples:
  python -m fleet.ps.server --endpoint 127.0.0.1:6170              a server for workers of this machine
  FLEET_JOB_TOKEN=secret python -m fleet.ps.server --endpoint 10.0.0.1:6170    one for workers of other machines
  fleetrun --server_num 2 --worker_num 2 train.py                  servers and workers at once, no need for this

Workers find it by its endpoint: FLEET_SERVERS=127.0.0.1:6170. It needs no training script and no model:
the workers declare their tables. It says `Server listening on IP:PORT` when it is ready, and ends by SIGTERM, Ctrl-C,
or when every worker has left.
"""


def serve(
    service: Handler,
    endpoint: Endpoint,
    token: str | None,
    *,
    allow_anonymous: bool = False,
    grace_s: float = GRACE_S,
    is_held: bool = False,
    closed: threading.Event | None = None,
) -> bool:
    """Serve until SIGTERM, SIGINT, or until `service.finished` is set; returns whether every call came to its end.

    In a durable job of fleetrun, SIGTERM alone ends it: a worker that was killed while it left one server after the
    other comes back, and needs them all. fleetrun sends it when every worker has ended.
    CommunicationError, after the same end, if a change that its journal has could not be made: the next life makes it.
    `is_held` says that this process holds the port already, as fleetrun does for its children.
    Outside the main thread there are no signals, and `service.finished` alone ends it, or `closed`, by which another
    thread tells it to stop.
    """
    from fleet.ps.server.grpc_server import GrpcServer  # only after `main` has told gRPC to be quiet
    from fleet.ps.wire.trust.tls import Tls

    show_logs(logging.INFO)
    is_held = is_held or env.FLEET_JOB_ID.text() is not None
    tls = Tls.from_environment()
    if token and len(token) < SHORT_TOKEN and not is_loopback(endpoint.host):
        _log.warning(
            "FLEET_JOB_TOKEN has %d characters, which others may guess; openssl rand -hex 32 makes a good one",
            len(token),
        )
    standby = getattr(service, "standby", None)
    ended: threading.Event = threading.Event() if standby is None else standby.ended
    server = GrpcServer(service, endpoint, token, allow_anonymous=allow_anonymous, is_held=is_held, tls=tls)
    watch(service, server.refused)
    plane: PlaneServer | None = None
    finished: threading.Event = getattr(service, "finished", None) or threading.Event()
    broken: threading.Event = getattr(service, "broken", None) or threading.Event()
    closed = closed or threading.Event()
    stays = env.FLEET_DURABLE.text() is not None and env.FLEET_JOB_ID.text() is not None
    with _told_to_stop() as told:
        server.start()
        plane = _data_plane(service, server.address, token, tls)
        # What was imported stays: searching it for garbage again and again would cost as much as serving.
        # In a thread of another program that is the program's to decide: its objects may be many, and are not ours.
        owns_process = threading.current_thread() is threading.main_thread()
        if owns_process:
            gc.collect()
            gc.freeze()
        try:
            print(f"Server listening on {server.address}", flush=True)
            note_serving(server.address)
            chaos_notes.note("serving")
            ends = (closed, broken, ended) if stays else (closed, broken, ended, finished)
            while not told and not any(one.is_set() for one in ends):
                time.sleep(_LOOK_S) if stays else finished.wait(_LOOK_S)
            if broken.is_set():
                raise CommunicationError("a change that is in the journal failed half-way; this server starts again")
            _log.info("%s", "a server no more" if ended.is_set() else _why(told, finished))
        finally:
            if (close := getattr(service, "close", None)) is not None:
                close()
            if owns_process:
                gc.unfreeze()
            if plane is not None:
                plane.stop()
            is_clean = server.stop(grace_s)
            tell_last()  # fleetrun ends servers when the workers are gone, and from here on that is at once
    if standby is not None and standby.failure:
        _refuse(standby.failure)
    return is_clean


def _refuse(*lines: str) -> NoReturn:
    """End this process in a way that tells fleetrun that starting it again is in vain."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)
    raise SystemExit(2)


def _why(told: Sequence[int], finished: threading.Event) -> str:
    """What has ended a server, in words."""
    if finished.is_set():
        return "every worker has left"
    return f"told to stop by {signal.Signals(told[0]).name}" if told else "closed by its process"


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


def make_service(name: str, endpoint: Endpoint, **arguments: Any) -> Service:
    """The service of a server, which takes up its journal if the job is durable: that of the server with this name.

    Where servers have copies, their terms say which server it is. A journal that is damaged, or of another job, ends
    the process with one line and exit code 2: fleetrun then knows that starting it again is in vain. A server whose
    place another has taken ends with exit code 0.
    """
    from fleet.ps.durable.durability import own_journal
    from fleet.ps.job.native_threads import use_native_threads
    from fleet.ps.server.service import Service  # brings in the native core, which --help does not need
    from fleet.ps.standby.standing import Part, own_standing

    show_logs(logging.INFO)
    use_native_threads()
    standing = own_standing(endpoint)
    if standing is not None and standing.part is Part.DEPOSED:
        print(f"server: term {standing.number} has no place for {endpoint}, which is a server no more", flush=True)
        raise SystemExit(0)
    journal = own_journal(name if standing is None else server_folder(standing.server, 0))
    try:
        return Service(journal=journal, standing=standing, **arguments)
    except FleetError as error:
        if journal is None:
            raise
        _refuse(*filter(None, [f"server: {error}", error.see]))


@contextmanager
def _told_to_stop() -> Iterator[list[int]]:
    """A list that gets the number of a signal that tells this process to end."""
    told: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield told
        return

    def note(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def own_endpoint() -> Endpoint:
    """The endpoint that the environment gives this server, or this copy of one, which is in no list of servers."""
    if own_copy() is not None:
        host = env.POD_IP.require("a copy of a server needs its address")
        return Endpoint.parse(f"{host}:{env.PADDLE_PORT.require('a copy of a server needs its port')}")
    maker = roles.discover()
    try:
        who = maker.identity
        if who.role is not roles.Role.SERVER:
            raise UsageError(
                f"this process is no server ({who.source} says {who.name}); pass --endpoint HOST:PORT, or set "
                "FLEET_ROLE=server, FLEET_INDEX, FLEET_SERVERS and FLEET_WORKERS"
            )
        return who.server_endpoints[who.index]
    finally:
        maker.close()


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.option("--endpoint", metavar="HOST:PORT", help="Where to listen.  [default: what the environment says]")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Where dense parameters live; rows of tables are always in host memory.",
)
@click.option("--model_dir", metavar="DIR", help="A checkpoint to begin with.  [default: begin anew]")
@click.option(
    "--allow_anonymous",
    is_flag=True,
    help="Without FLEET_JOB_TOKEN serve everybody: other users of this machine, other machines. Trust the network.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="DIR",
    help="Workers can have it save and load inside this folder alone. May be repeated.  [default: FLEET_ROOTS, else "
    "anywhere]",
)
def _command(
    endpoint: str | None, device: str, model_dir: str | None, allow_anonymous: bool, roots: tuple[str, ...]
) -> bool:
    """Run one parameter server.

    Rows of the tables, dense parameters and their optimizer state live in it; workers pull and push.
    """
    where = own_endpoint() if endpoint is None else Endpoint.parse(endpoint, "--endpoint")
    token = job_secret() if allow_anonymous else token_for(where)
    check_exposure(where, token, allow_anonymous)
    set_roots(roots)
    service = make_service(f"server-{where.port}", where, device=device, model_dir=model_dir)
    return serve(service, where, token, allow_anonymous=allow_anonymous)


def main() -> None:
    """Run the command; a mistake is one line and exit code 2, any other error of Fleet one line and exit code 1."""
    show_logs(logging.INFO)
    env.prefer("GRPC_VERBOSITY", "ERROR")  # or every stranger without TLS writes a line into our log
    try:
        is_clean = _command.main(prog_name="python -m fleet.ps.server", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except FleetError as error:
        print(f"server: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    if is_clean is False:
        # A call that does not end keeps its thread, and Python would wait for it for ever.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
