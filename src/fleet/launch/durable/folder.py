"""The folder of a durable job: made and locked before anything starts, and what an earlier job has left in it.

Names in it are by role and index (`server-1`, `worker-0`), so machines may each have a folder of their own, or share
one. A lock belongs to a process of the job, not to the folder, and the process has it too: as long as one of them
lives, no other job writes beside it, even if its launcher was killed.
"""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from fleet.errors import UsageError
from fleet.jobfiles.kept import clear_finished, is_finished
from fleet.jobfiles.layouts import Decided, Layouts
from fleet.jobfiles.scaling import ScaleNotes
from fleet.jobfiles.terms import Terms
from fleet.launch.arguments.options import Options

_LOCK_TIMEOUT_S = 2.0
"""How long processes of a job whose launcher was killed may take to be gone."""
_LOOK_S = 0.02
_SERVER = re.compile(r"server-\d+")


def make_folder(options: Options) -> None:
    """Make the folder, if the job is to have one."""
    if options.durable is None:
        return
    try:
        Path(options.durable).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--durable {options.durable}: cannot be made: {error.strerror}; choose another") from error


def present_layout(options: Options) -> Decided | None:
    """The layout of servers that a job has left in its folder, if their number was changed.

    A change that was not decided when the job ended is given up, and what lies there of others is removed.
    """
    if options.durable is None or options.dry_run:
        return None
    layouts = Layouts(options.durable)
    if not layouts.folder.exists():
        return None
    if (undecided := layouts.undecided) is not None:
        layouts.decide(undecided, abandoned="the job ended")
        layouts.clear_moving(undecided)
    layouts.take_wish()
    present = layouts.present()
    if present is not None and not has_journal(options.durable, f"server-*-{present.number}"):
        layouts.remove()  # of a job that has ended in order
        return None
    kept = 0 if present is None else present.number
    layouts.clear_servers(lambda number: number != kept)
    if present is not None and (options.servers is not None or options.master is not None):
        raise UsageError(
            f"--durable {options.durable}: the job there has changed its number of servers to "
            f"{len(present.endpoints)}, on one machine; go on with --server_num and --worker_num"
        )
    return present


def refuse_other_number(options: Options) -> None:
    """UsageError if a job that is to go on had another number of servers, as far as this machine alone can tell.

    The folder of every server is made before the first one starts, also in a job that was killed right then.
    """
    wanted = options.server_num
    if options.durable is None or wanted is None or options.servers is not None or options.master is not None:
        return
    paths = [path for path in Path(options.durable).glob("server-*") if _SERVER.fullmatch(path.name)]
    kept = [int(path.name.removeprefix("server-")) for path in paths if _has_journal(path)]
    if not kept:
        return
    number = max(max(kept) + 1, len(paths) if len(paths) < wanted else wanted)
    if number != wanted:
        raise UsageError(
            f"--durable {options.durable}: the job there has {number} server{'s' if number > 1 else ''}, not {wanted}; "
            f"go on with --server_num {number}, or choose another folder (a running job: fleetrun reshard)"
        )


def remove_layouts(options: Options) -> None:
    """The job has ended in order: nothing is left of its layouts, its terms, and how many workers were wanted."""
    if options.durable is not None:
        Layouts(options.durable).remove()
        Terms(options.durable).remove()
        ScaleNotes(options.durable).remove()


def lock(options: Options, name: str, resources: ExitStack) -> int | None:
    """Lock what a process keeps, by its name in the folder, until `resources` close.

    Returns a descriptor for it to inherit, or None if it keeps nothing.

    UsageError if a process of another job has it.
    """
    if options.durable is None:
        return None
    path = Path(options.durable) / f"{name}.lock"
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            if name.startswith("server-"):  # a later life knows by its folder whether its files are gone
                path.with_suffix("").mkdir(exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(
                f"--durable {options.durable}: cannot be written to: {error.strerror}; choose another"
            ) from error
        if _is_ours(file, path):
            resources.callback(_unlock, file, path)
            return file
        os.close(file)
        if time.monotonic() > deadline:
            raise UsageError(
                f"--durable {options.durable}: {name.replace('-', ' ')} of another job that is still running keeps "
                "its own there; choose another folder"
            )
        time.sleep(_LOOK_S)


def begin(options: Options, names: Sequence[str]) -> None:
    """Remove what a job that has finished left, now that what these processes keep is locked."""
    if options.durable is not None:
        clear_finished(Path(options.durable), names)


def what_is_there(options: Options) -> str | None:
    """One line about what an earlier run has left for this one; None if there is nothing."""
    if options.durable is None or not has_journal(options.durable, "server-*"):
        return None
    return f"going on with what servers of an earlier run kept in {options.durable}; to begin anew, delete it"


def what_is_left(options: Options) -> str | None:
    """One line about what a job that ended too early leaves on this machine; None if there is nothing."""
    if options.durable is None or not has_journal(options.durable, "server-*"):
        return None
    return f"{options.durable} keeps what the servers know; the same command goes on from there"


def has_journal(folder: str, server: str) -> bool:
    """Whether a server, by its name in the folder, has left its journal; one that every worker left removes it."""
    return any(_has_journal(found) for found in Path(folder).glob(server))


def _has_journal(server: Path) -> bool:
    if is_finished(server):
        return False
    return any(any(server.glob(files)) for files in ("journal-*.log", "snapshot-*.snap"))


def _is_ours(file: int, path: Path) -> bool:
    """Whether the lock is taken, on the file that has this name now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:  # its last owner has just left
        return False


def _unlock(file: int, path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
    os.close(file)
