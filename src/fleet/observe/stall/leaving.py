"""How a process leaves whose main thread may be stuck, on a machine whose file systems may hang.

Where no thread can start any more, because the interpreter ends, both functions do nothing.
"""

import contextlib
import os
import sys
import threading

from fleet.observe.stall.words import EXIT_CODE

FLUSH_LIMIT_S = 1.0


def exit_within(limit_s: float) -> None:
    """End this process by then, whatever becomes of what is still to be written."""
    timer = threading.Timer(limit_s, os._exit, (EXIT_CODE,))
    timer.daemon = True
    with contextlib.suppress(RuntimeError):
        timer.start()


def flush() -> None:
    """Write out what Python holds back; the main thread may be stuck with a lock on it, so this does not wait long."""

    def write() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    thread = threading.Thread(target=write, daemon=True)
    with contextlib.suppress(RuntimeError):
        thread.start()
        thread.join(FLUSH_LIMIT_S)
