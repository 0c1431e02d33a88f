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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fleet import env
from fleet.errors import FleetError, MovedError, UsageError
from fleet.jobfiles.job_secret import job_secret
from fleet.jobfiles.layouts import own_layout, server_folder
from fleet.jobfiles.serving import note_serving
from fleet.net import Endpoint
from fleet.observe.logs import show_logs
from fleet.ps.server.place import ServerPlace, own_place
from fleet.ps.server.roots import set_roots
from fleet.ps.server.serving import GRACE_S, Serving
from fleet.ps.wire import faults
from fleet.ps.wire.transport import Handler
from fleet.ps.wire.trust.own_token import check_exposure, token_for

if TYPE_CHECKING:
    from fleet.ps.server.service import Service

_log = logging.getLogger("fleet.ps.server")  # the same name when this file is the program

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
    announce: Callable[[Endpoint], None] = lambda _: None,
) -> bool:
    """Serve until SIGTERM, SIGINT, or until `service.finished` is set; returns whether every call came to its end.

    In a durable job of fleetrun, SIGTERM alone ends it: a worker that was killed while it left one server after the
    other comes back, and needs them all. fleetrun sends it when every worker has ended.
    CommunicationError, after the same end, if a change that its journal has could not be made: the next life makes it.
    `is_held` says that this process holds the port already, as fleetrun does for its children.
    Outside the main thread there are no signals, and `service.finished` alone ends it, or `closed`, by which another
    thread tells it to stop. `announce` is told where it listens.
    """
    show_logs(logging.INFO)
    is_held = is_held or env.is_under_fleetrun()
    serving = Serving(service, endpoint, token, allow_anonymous=allow_anonymous, is_held=is_held)
    finished, closed = serving.finished, closed or threading.Event()
    stays = env.FLEET_DURABLE.text() is not None and env.is_under_fleetrun()
    with _told_to_stop() as told:
        serving.start()
        # What was imported stays: searching it for garbage again and again would cost as much as serving.
        # In a thread of another program that is the program's to decide: its objects may be many, and are not ours.
        owns_process = threading.current_thread() is threading.main_thread()
        if owns_process:
            gc.collect()
            gc.freeze()
        try:
            announce(serving.endpoint)
            print(f"Server listening on {serving.address}", flush=True)
            note_serving(serving.address)
            faults.note_serving()
            while not (is_over := serving.is_over) and not (told or closed.is_set()):
                if stays:
                    time.sleep(_LOOK_S)
                elif finished.wait(_LOOK_S):
                    break
            _log.info("%s", "a server no more" if is_over else _why(told, finished))
        finally:
            if owns_process:
                gc.unfreeze()
            is_clean = serving.stop(grace_s)
    standby = getattr(service, "standby", None)
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


def open_service(name: str, endpoint: Endpoint, **arguments: Any) -> Service:
    """The service of a server, which takes up its journal if the job is durable: that of the server with this name.

    Where servers have copies, their terms say which server it is; MovedError where they have no place for it.
    FleetError where the journal is damaged, or of another job.
    """
    from fleet.ps.durable.durability import own_journal
    from fleet.ps.job.native_threads import use_native_threads
    from fleet.ps.server.service import Service  # brings in the native core, which --help does not need
    from fleet.ps.standby.standing import Part, own_standing

    use_native_threads()
    standing = own_standing(endpoint)
    if standing is not None and standing.part is Part.DEPOSED:
        raise MovedError(f"term {standing.number} has no place for {endpoint}, which is a server no more; end it")
    journal = own_journal(name if standing is None else server_folder(standing.server, 0))
    return Service(journal=journal, standing=standing, **arguments)


def make_service(name: str, endpoint: Endpoint, **arguments: Any) -> Service:
    """`open_service` for a process that is a server and nothing else.

    What its journal refuses ends the process with one line and exit code 2: fleetrun then knows that starting it again
    is in vain. A server whose place another has taken ends with exit code 0.
    """
    show_logs(logging.INFO)
    try:
        return open_service(name, endpoint, **arguments)
    except MovedError as error:
        print(f"server: {error}", flush=True)
        raise SystemExit(0) from None
    except FleetError as error:
        if env.FLEET_DURABLE.text() is None:
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
    before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # means save and stop, for workers
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _place(endpoint: str | None, index: int | None) -> ServerPlace:
    """Which server this is and where it listens: what was typed, else what the environment says."""
    if endpoint is None:
        place = own_place()
        return place if index is None else replace(place, index=index)
    where = Endpoint.parse(endpoint, "--endpoint")
    if index is None:
        with suppress(UsageError):
            index = own_place().index
    folder = env.FLEET_DURABLE.get()
    if index is None and folder is not None:
        raise UsageError(
            f"FLEET_DURABLE={folder}: a server keeps its journal there by its number; pass --index N, or set "
            "FLEET_ROLE=server and FLEET_INDEX"
        )
    return ServerPlace(index or 0, where)


def _refuse_by_port(place: ServerPlace) -> None:
    """UsageError where this server has a journal from when its name had the port in it."""
    folder = env.FLEET_DURABLE.get()
    if folder is None or place.endpoint.port in (0, place.index):
        return
    old, new = (Path(folder) / f"server-{number}" for number in (place.endpoint.port, place.index))
    if old.is_dir() and any(old.glob("journal-*")):
        raise UsageError(
            f"{old} holds the journal of a server by its port, as Fleet once named it; it is looked for in {new} now: "
            f"mv {old} {new}, or remove it"
        )


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.option("--endpoint", metavar="HOST:PORT", help="Where to listen.  [default: what the environment says]")
@click.option(
    "--index", type=click.IntRange(min=0), help="Its number among the servers.  [default: what the environment says]"
)
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
    endpoint: str | None,
    index: int | None,
    device: str,
    model_dir: str | None,
    allow_anonymous: bool,
    roots: tuple[str, ...],
) -> bool:
    """Run one parameter server.

    Rows of the tables, dense parameters and their optimizer state live in it; workers pull and push.
    """
    place = _place(endpoint, index)
    where = place.endpoint
    token = job_secret() if allow_anonymous else token_for(where)
    check_exposure(where, token, allow_anonymous)
    set_roots(roots)
    _refuse_by_port(place)
    service = make_service(server_folder(place.index, own_layout()), where, device=device, model_dir=model_dir)
    return serve(service, where, token, allow_anonymous=allow_anonymous, announce=place.announce)


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
