"""Copies a growing log file to the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO


class Follower:
    """Shows what is added to `path`; call `pump()` now and then."""

    def __init__(self, path: Path, out: BinaryIO) -> None:
        self._path = path
        self._out: BinaryIO | None = out
        self._position = 0

    def pump(self) -> None:
        """Copy what is new. A terminal that is gone (a closed pipe) ends the copying, not the job."""
        if self._out is None or not self._path.exists():
            return
        with open(self._path, "rb") as file:
            file.seek(self._position)
            while chunk := file.read(1 << 16):
                self._position += len(chunk)
                try:
                    self._out.write(chunk)
                    self._out.flush()
                except (BrokenPipeError, ValueError):
                    self._out = None
                    return


def tail(path: Path, num_lines: int, max_bytes: int = 1 << 16) -> list[str]:
    """The last lines of a log, however long it is; of a progress bar only its last state."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - max_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [line.rstrip().rpartition("\r")[2] for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines[-num_lines:]
