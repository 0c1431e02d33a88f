"""The log files of a job: opened and locked before anything starts, so that two jobs never write to one file."""

import fcntl
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fleet.errors import UsageError
from fleet.launch.planning.plan import ProcessPlan

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What a progress bar writes to move about the terminal."""


def open_log(path: Path, resources: ExitStack, *, is_continued: bool = False) -> int:
    """A log for appending, empty unless it is continued; the descriptor stays open until `resources` close."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; choose another --log_dir") from error
    resources.callback(os.close, log)
    # Locked through a descriptor of our own: one that the job's processes inherit would keep the lock as long as they.
    lock = os.open(path, os.O_RDONLY)
    resources.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{path} belongs to another job that is still running; choose another --log_dir") from None
    except OSError:
        pass  # a file system without locks
    if not is_continued:
        os.ftruncate(log, 0)
    return log


def end_line(log: int, path: Path) -> None:
    """End the last line of a log whose writer has died in the middle of it."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                os.write(log, b"\n")


def tail(path: Path, num_lines: int, max_bytes: int = 1 << 16, start: int = 0) -> list[str]:
    """The last lines of a log behind `start`, however long it is; of a progress bar only its last state."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(start, file.tell() - max_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [_ESCAPES.sub("", line).rstrip().rpartition("\r")[2] for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines[-num_lines:]


class ReadyProcess(NamedTuple):
    """A process that can be started, once or in several lives."""

    plan: ProcessPlan
    log: int
    """A descriptor to which its output is appended."""
    lock: int | None = None
    """A descriptor that locks what it keeps in the folder of a durable job, for it to inherit."""


@dataclass(frozen=True)
class JobIdentity:
    """What every process of a round is told about the job."""

    job_id: str
    token: str = field(repr=False)
    restart: int = 0
    """How often the job was started before."""
