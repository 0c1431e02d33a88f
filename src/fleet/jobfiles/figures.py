"""The files by which processes of a job and fleetrun know of each other's figures: in LOG_DIR/observe.

    workerlog.0.4711.json        figures of the process 4711, whose log is workerlog.0; replaced every second
    workerlog.0.events.jsonl     what happened to it, a line each, of all its lives
    fleetrun.0.json              machine 0 as its launcher sees it; replaced every second
    fleetrun.0.events.jsonl      what the launcher said
    fleetrun.0.history.jsonl     how figures changed

What is replaced is written by `whole`. Whoever writes never waits for whoever reads, and a file that cannot be written
is a figure that is lost.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleet import env
from fleet.jobfiles.process_files import ProcessFiles

FOLDER = "observe"
FORM = 1
"""Grows when the files change in a way that an older reader would get wrong."""


def own_base() -> Path | None:
    """Where this process writes, without the ending; None where nobody would read it."""
    files = ProcessFiles.own()
    if files is None or env.FLEET_METRICS.get() == "0":
        return None
    return files.log.parent / FOLDER / files.log.name


def figures_file(folder: Path, log_name: str, pid: int) -> Path:
    """The figures of one process."""
    return folder / f"{log_name}.{pid}.json"


def events_file(folder: Path, name: str) -> Path:
    """The events of a process, by the name of its log, or of a launcher."""
    return folder / f"{name}.events.jsonl"


def append(path: Path, value: object) -> bool:
    """Add a line of JSON, in one write; False if that could not be done."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError:
        return False
    try:
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        return os.write(file, line) == len(line)
    except OSError:
        return False
    finally:
        os.close(file)


def lines(path: Path, most_bytes: int = 1 << 24) -> Iterator[dict[str, Any]]:
    """The lines that `append` wrote, of the last `most_bytes`; parts of one, from a full disk, are left out."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            begin = max(0, file.tell() - most_bytes)
            file.seek(begin)
            data = file.read()
    except OSError:
        return
    for line in data.split(b"\n")[1 if begin else 0 :]:
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found
