"""Whether a worker owes its servers a `fleet.stop_worker()`: a file that is there from its joining to its leaving."""

import contextlib
import time
from pathlib import Path

from fleet.jobfiles import whole
from fleet.jobfiles.process_files import ProcessFiles


def note_joined() -> bool:
    """Let fleetrun know that this worker has joined its servers, once; False if there is no fleetrun."""
    files = ProcessFiles.own()
    if files is None:
        return False
    if not files.unstopped.exists():
        whole.replace(files.unstopped, {"time": time.time()})
    return True


def note_stopped() -> None:
    """Let fleetrun know that it owes them nothing any more."""
    files = ProcessFiles.own()
    if files is not None:
        with contextlib.suppress(OSError):
            files.unstopped.unlink()


def joined_since(path: Path) -> float | None:
    """When a worker joined the servers that it has not left yet, in seconds since 1970; None if there are none."""
    return whole.moment(path)


def unstopped_text(who: str) -> str:
    """`worker 1 ended without fleet.stop_worker(); call it at the end of the script`."""
    return f"{who} ended without fleet.stop_worker(); call it at the end of the script"
