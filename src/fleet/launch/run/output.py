"""Writing to a terminal or pipe that may have stopped taking anything: never for longer than it is worth."""

import contextlib
import logging
import os
import select
import sys
import time
from typing import TextIO

# A pipe that poll() calls writable takes this much without blocking.
_PIECE = 4096


def write_within(descriptor: int, data: bytes, patience_s: float) -> bool:
    """Write all of `data` unless the reader takes nothing for `patience_s`; False if some of it was dropped."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    deadline = time.monotonic() + patience_s
    while data:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return False
        try:
            data = data[os.write(descriptor, data[:_PIECE]) :]
        except OSError:  # nobody there, or no room
            return False
    return True


def is_one_place(first: int, second: int) -> bool:
    """Whether two descriptors lead to the same terminal, pipe or file, so that one reader sees both."""
    try:
        return os.path.samestat(os.fstat(first), os.fstat(second))
    except OSError:  # one is closed
        return False


def say(text: str, stream: TextIO | None = None) -> None:
    """Print to stderr; a terminal that is gone is no reason to end a job."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=stream or sys.stderr, flush=True)


class EventFormatter(logging.Formatter):
    """`12:03:07 fleetrun: started 2 workers`; what is no mere news says so: `12:03:09 fleetrun: warning: ...`."""

    def format(self, record: logging.LogRecord) -> str:
        """One event; what it has to say beyond its line follows below."""
        kind = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return f"{self.formatTime(record, '%H:%M:%S')} fleetrun: {kind}{record.getMessage()}"


class PatientHandler(logging.Handler):
    """Logs to a descriptor; a reader that does not read costs a second once, and its messages."""

    def __init__(self, descriptor: int, patience_s: float = 1.0) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._patience_s = patience_s
        self._is_taken = True

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{self.format(record)}\n".encode(errors="replace")
        self._is_taken = write_within(self._descriptor, text, self._patience_s if self._is_taken else 0.0)
