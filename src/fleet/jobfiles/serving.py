"""Whether a server serves: a file that it writes when workers can reach it, for the launcher that waits for it."""

import time
from pathlib import Path

from fleet.jobfiles import whole
from fleet.jobfiles.process_files import ProcessFiles


def note_serving(endpoint: object) -> None:
    """Let fleetrun know that this process serves at `endpoint`; nothing happens where no fleetrun has started it."""
    files = ProcessFiles.own()
    if files is not None:
        whole.replace(files.serving, {"time": time.time(), "endpoint": str(endpoint)})


def serving_since(path: Path) -> float | None:
    """When a server began to serve, in seconds since 1970; None if it does not."""
    return whole.moment(path)
