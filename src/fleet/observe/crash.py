"""Leaves a note about an uncaught exception, so that fleetrun can tell the cause from its consequences."""

from __future__ import annotations

import json
import os
import sys
import time
from types import TracebackType

from fleet import env


def record_crash() -> None:
    """From now on write an uncaught exception to FLEET_ERROR_FILE before it is printed; nothing when that is unset."""
    path = env.FLEET_ERROR_FILE.get()
    if path is None:
        return
    print_it = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        temporary = f"{path}.{os.getpid()}"
        try:
            with open(temporary, "w") as file:
                json.dump({"time": time.time(), "type": kind.__name__, "message": str(error)}, file)
            os.replace(temporary, path)
        except OSError:
            pass  # the note is a courtesy; the traceback below must not be lost over it
        print_it(kind, error, trace)

    sys.excepthook = note
