"""Leaves a note when this process begins to end, so that fleetrun can tell the cause from its consequences.

A worker that raises or calls sys.exit() takes a while to leave, and its peers notice the closed connection and may
leave before it. The note has the moment it began.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
from types import TracebackType

from fleet import env


def note_the_end() -> None:
    """From now on note the first of: an uncaught exception, the interpreter's exit. Nothing without FLEET_NOTE_FILE.

    Call it again after other handlers have been registered: the last hook is the first to be called. The first note
    stays, so that does no harm.
    """
    path = env.FLEET_NOTE_FILE.get()
    if path is None:
        return
    hook = getattr(sys.excepthook, "__self__", None)
    recorder = hook if isinstance(hook, _Recorder) else _Recorder(path)
    atexit.unregister(recorder.note)
    atexit.register(recorder.note)


class _Recorder:
    """Writes the note, and only in the process that asked: a forked child's end is not ours."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = os.getpid()
        self._print = sys.excepthook
        sys.excepthook = self._except

    def _except(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.note()
        self._print(kind, error, trace)

    def note(self) -> None:
        if os.getpid() != self._pid:
            return
        temporary = f"{self._path}.{self._pid}"
        with contextlib.suppress(OSError):  # a courtesy: what ends the process must not be lost over it
            with open(temporary, "w") as file:
                json.dump({"time": time.time()}, file)
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self._path)
            os.unlink(temporary)
