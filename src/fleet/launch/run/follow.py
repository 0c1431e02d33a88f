"""Copies a growing log file to the terminal, in a thread of its own: a slow terminal must not slow the watch."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fleet.launch.run.interrupted import InterruptFilter
from fleet.launch.run.output import write_within

log = logging.getLogger("fleetrun")

_TICK_S = 0.05
# How long a reader that takes nothing is waited for once the launcher has been signalled.
SIGNALLED_PATIENCE_S = 2.0
_CHUNK = 1 << 16


class LogFollower:
    """Shows what `path` holds from byte `start` on, and what is added, on the descriptor `out` until `finish()`.

    Once the launcher `is_interrupted` the traces of that are left out.
    """

    def __init__(
        self, path: Path, out: int, start: int = 0, is_interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._path = path
        self._out = out
        self._start = start
        self._is_interrupted = is_interrupted
        self._filter: InterruptFilter | None = None
        self._progress = 0
        self._finishing = threading.Event()
        self._is_abandoned = False
        self.is_mid_line = False
        """Whether what was shown last did not end its line, as a progress bar does not."""
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)
        self._thread.start()

    def conclude(self, patience_s: float | None, was_signalled: Callable[[], bool]) -> None:
        """`finish`, and leave the terminal as it was; say where all of it is if nobody reads this."""
        is_shown = self.finish(patience_s, was_signalled)
        if os.isatty(self._out):  # a progress bar that was killed leaves no cursor, and a line without an end
            write_within(self._out, b"\x1b[?25h" + (b"\n" if self.is_mid_line else b""), patience_s=0.5)
        if not is_shown:
            log.warning("nobody reads this output; all of it is in %s", self._path)

    def finish(self, patience_s: float | None, was_signalled: Callable[[], bool]) -> bool:
        """Show what is left, then stop; False if some of it was not shown.

        With a patience, a reader that takes nothing for so long is not waited for; without one it is, as any program
        on a pipe does. Once the launcher has been signalled it has SIGNALLED_PATIENCE_S.
        """
        self._finishing.set()
        seen, changed_at = self._progress, time.monotonic()
        signalled_at: float | None = None
        while self._thread.is_alive():
            self._thread.join(timeout=_TICK_S)
            now = time.monotonic()
            if self._progress != seen:
                seen, changed_at = self._progress, now
            if signalled_at is None and was_signalled():
                signalled_at = now
            is_stalled = patience_s is not None and now - changed_at > patience_s
            if is_stalled or (signalled_at is not None and now - signalled_at > SIGNALLED_PATIENCE_S):
                self._is_abandoned = True
                return False
        return True

    def _run(self) -> None:
        try:
            with open(self._path, "rb", buffering=0) as file:
                file.seek(self._start)
                while True:
                    is_last = self._finishing.is_set()
                    if os.fstat(file.fileno()).st_size < file.tell():  # somebody has cut the log
                        file.seek(0)
                    while chunk := file.read(_CHUNK):
                        self._show(self._filtered(chunk))
                    if is_last:
                        self._show(b"" if self._filter is None else self._filter.rest())
                        return
                    self._finishing.wait(_TICK_S)
        except OSError:
            return  # the terminal is gone (a closed pipe, a full disk): the job goes on, the log has everything

    def _filtered(self, chunk: bytes) -> bytes:
        if self._filter is None and self._is_interrupted():
            self._filter = InterruptFilter()
        return chunk if self._filter is None else self._filter.feed(chunk)

    def _show(self, chunk: bytes) -> None:
        # Written to the descriptor itself: a thread blocked inside sys.stdout would block the interpreter's exit.
        while chunk:
            written = os.write(self._out, chunk)
            if self._is_abandoned:
                raise BrokenPipeError("the launcher has stopped waiting")
            self.is_mid_line = chunk[written - 1 : written] != b"\n"
            chunk = chunk[written:]
            self._progress += written
