"""What a process waits for, in a file beside its log that only fleetrun reads; gone when the wait is over."""

import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from fleet.jobfiles import whole
from fleet.jobfiles.process_files import ProcessFiles


@dataclass(frozen=True)
class WaitNote:
    """A wait as the launcher reads it; moments are in seconds since 1970."""

    what: str
    workers: tuple[int, ...]
    since: float
    noted_at: float


class _Notes:
    """The file that holds what this process waits for, replaced whenever that changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[int, WaitNote] = {}

    def put(self, key: int, wait: WaitNote) -> None:
        with self._lock:
            self._waits[key] = wait
            self._write()

    def drop(self, key: int) -> None:
        with self._lock:
            if self._waits.pop(key, None) is not None:
                self._write()

    def _write(self) -> None:
        files = ProcessFiles.own()
        if files is not None:  # where the disk has no room, the log has it
            whole.replace(files.waits, {"waits": [asdict(wait) for wait in self._waits.values()]})


_notes = _Notes()


def note_wait(waiter: object, what: str, workers: tuple[int, ...], waited_s: float) -> None:
    """Let fleetrun know what somebody in this process waits for, and from which workers it must come."""
    now = time.time()
    _notes.put(id(waiter), WaitNote(what, workers, now - waited_s, now))


def forget_wait(waiter: object) -> None:
    """Let fleetrun know that somebody in this process waits no more."""
    _notes.drop(id(waiter))


def read_waits(path: Path) -> list[WaitNote]:
    """What a process waits for; nothing if it never waited long, or its file cannot be read."""
    try:
        found = (whole.read(path) or {"waits": ()})["waits"]
        return [
            WaitNote(one["what"], tuple(one["workers"]), float(one["since"]), float(one["noted_at"])) for one in found
        ]
    except (ValueError, KeyError, TypeError):
        return []
