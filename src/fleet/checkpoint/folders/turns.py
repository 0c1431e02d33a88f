"""Taking turns: of several processes that save into one folder at the same time, one does so after the other."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fleet.errors import CheckpointError

# As long as the longest save may take.
TURN_TIMEOUT_S = 3600.0
_LOOK_S = 0.1


@contextmanager
def turn(folder: Path, timeout_s: float = TURN_TIMEOUT_S) -> Iterator[None]:
    """Inside, no other process of this machine has a turn in `folder`; one that ends, however it does, gives it up.

    Where the file system knows no locks, everybody has a turn at once.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # whoever saves here finds out what is wrong, and says it better
        yield
        return
    try:
        deadline = time.monotonic() + timeout_s
        while not _has_locked(descriptor):
            if time.monotonic() > deadline:
                raise CheckpointError(f"waited {timeout_s:g} s for another save in {folder} to end; save one at a time")
            time.sleep(_LOOK_S)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process that was forked meanwhile has the descriptor too
        os.close(descriptor)


def _has_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks here
        return True
    return True
