"""Copies a growing log file to the terminal, in a thread of its own: a slow terminal must not slow the watch."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_TICK_S = 0.05
_CHUNK = 1 << 16


class Follower:
    """Shows what is added to `path` on the descriptor `out` until `finish()`."""

    def __init__(self, path: Path, out: int, position: int = 0) -> None:
        self._path = path
        self._out = out
        self.position = position
        """How much of the file has been shown."""
        self.is_mid_line = False
        """Whether what was shown last did not end its line, as a progress bar does not."""
        self._finishing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)
        self._thread.start()

    def finish(self, patience_s: float = 2.0) -> None:
        """Show what is left, then stop; a reader that takes nothing for `patience_s` is not waited for."""
        self._finishing.set()
        while self._thread.is_alive():
            before = self.position
            self._thread.join(timeout=patience_s)
            if self.position == before:
                return

    def _run(self) -> None:
        try:
            with open(self._path, "rb", buffering=0) as file:
                file.seek(self.position)
                while True:
                    is_last = self._finishing.is_set()
                    while chunk := file.read(_CHUNK):
                        self._show(chunk)
                    if is_last:
                        return
                    self._finishing.wait(_TICK_S)
        except OSError:
            return  # the terminal is gone (a closed pipe, a full disk): the job goes on, the log has everything

    def _show(self, chunk: bytes) -> None:
        # Written to the descriptor itself: a thread blocked inside sys.stdout would block the interpreter's exit.
        while chunk:
            written = os.write(self._out, chunk)
            chunk_end = chunk[written - 1 : written]
            chunk = chunk[written:]
            self.position += written
            self.is_mid_line = chunk_end != b"\n"
