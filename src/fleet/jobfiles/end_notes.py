"""When a process began to end, and whether it was refused before it could begin; `ending` writes it, fleetrun reads."""

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from fleet.jobfiles import whole


@dataclass(frozen=True)
class EndNote:
    """The note of one process."""

    time: float
    """When it raised or began to exit, in seconds since 1970."""
    is_refusal: bool
    """Whether it is a worker with an error of usage, or over a state that does not fit, before it began."""


def write_end(path: Path, *, is_refusal: bool = False) -> None:
    """Note that the process ends now; the first note stays."""
    with contextlib.suppress(OSError), open(path, "x") as file:
        file.write(json.dumps({"time": time.time(), "is_refusal": is_refusal}))


def read_end(path: Path) -> EndNote | None:
    """What a process has noted; None if it has not begun to end, or had no time to say so."""
    moment = whole.moment(path)
    return None if moment is None else EndNote(moment, bool((whole.read(path) or {}).get("is_refusal")))
