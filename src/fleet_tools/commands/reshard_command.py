"""`fleetrun reshard N --durable DIR`: have a job that runs on this machine go on with N servers."""

import fcntl
import os
import time
from pathlib import Path

import click

from fleet import env
from fleet.errors import CommunicationError, DeadlineError, UsageError
from fleet.jobfiles.layouts import Layouts
from fleet.jobfiles.scaling import ScaleNotes
from fleet.launch.run.output import say

ASK_S = 60.0
"""How long worker 0 may take to see the wish: it looks at every step."""
MOVE_S = 3600.0
AGAIN_S = 3.0
"""How soon worker 0 tries again where a move was given up."""
_LOOK_S = 0.1

EPILOG = """
\b
Examples:
  fleetrun --server_num 2 --worker_num 4 --durable kept train.py      a job
  fleetrun reshard 3 --durable kept                                   goes on with three servers

It returns when the new servers have taken over. The job trains on meanwhile; docs/parameter_server.md says more.
"""


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.option("--durable", metavar="DIR", help="The folder of the job.  [default: FLEET_DURABLE]")
@click.argument("number", metavar="N")
def reshard(durable: str | None, number: str) -> int:
    """Change the number of servers of a durable job that runs on this machine to N."""
    folder = durable or env.FLEET_DURABLE.get()
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageError(f"fleetrun reshard: N must be a whole number >= 1, got {number}")
    if folder is None:
        raise UsageError("fleetrun reshard needs the folder of the job: fleetrun reshard N --durable DIR")
    return go_on_with(folder, int(number))


def go_on_with(folder: str, num_servers: int) -> int:
    """Have the job of a folder go on with so many servers; the exit code once it does."""
    layouts = Layouts(folder)
    num_now = _num_servers(layouts)
    if layouts.undecided is not None or layouts.has_wish:
        raise UsageError(f"the job in {folder} changes its number of servers already; wait until that is over")
    limits = ScaleNotes(folder).limits("servers")
    if limits is not None and not limits.least <= num_servers <= limits.most:
        raise UsageError(
            f"{num_servers} servers: the job in {folder} was started with --server_num {limits}; stay within that"
        )
    if num_now == num_servers:
        raise UsageError(f"the job in {folder} has {num_servers} servers already")
    before = layouts.newest
    layouts.wish(num_servers)
    _wait_for_worker(layouts, before)
    return _wait_for_end(layouts, num_now)


def _num_servers(layouts: Layouts) -> int:
    """How many servers the job has; UsageError if none runs."""
    locked = running_servers(layouts.durable)
    present = layouts.present()
    return len(present.endpoints) if present is not None else len(locked)


def running_servers(durable: Path) -> list[Path]:
    """The locks of the servers of the job that runs in a folder; UsageError if none does."""
    if not durable.is_dir():
        raise UsageError(f"--durable {durable}: there is no such folder")
    locked = [path for path in durable.glob("server-*.lock") if _is_locked(path)]
    if not locked:
        raise UsageError(f"--durable {durable}: no job with servers runs there on this machine")
    return locked


def _is_locked(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _wait_for_worker(layouts: Layouts, before: int) -> None:
    deadline = time.monotonic() + ASK_S
    while layouts.newest == before:
        if time.monotonic() > deadline:
            layouts.take_wish()
            raise DeadlineError(
                f"worker 0 has made no step for {ASK_S:g} s, and sees this when it does; is it training?"
            )
        time.sleep(_LOOK_S)


def _wait_for_end(layouts: Layouts, num_now: int) -> int:
    deadline = time.monotonic() + MOVE_S
    given_up_at: float | None = None
    while time.monotonic() < deadline:
        decided = layouts.decided(layouts.newest)
        if decided is None:
            given_up_at = None
        elif decided.endpoints:
            say(f"fleetrun: servers: {len(decided.endpoints)} instead of {num_now}")
            return 0
        elif given_up_at is None:
            given_up_at = time.monotonic()
        elif time.monotonic() - given_up_at > AGAIN_S:
            raise CommunicationError(f"the servers stay as they are: {decided.abandoned}")
        if not layouts.folder.exists():
            raise CommunicationError("the job has ended")
        time.sleep(_LOOK_S)
    raise DeadlineError(f"waited {MOVE_S:g} s for the new servers to take over")
