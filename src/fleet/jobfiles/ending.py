"""Leaves a note when this process begins to end, so that fleetrun can tell the cause from its consequences.

A worker that raises or calls sys.exit() takes a while to leave, and its peers notice the closed connection and may
leave before it. The note has the moment it began, and whether it is a worker that was refused before it could begin.
"""

import atexit
import contextlib
import dis
import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

from fleet import env
from fleet.errors import CheckpointError, UsageError
from fleet.jobfiles import whole
from fleet.jobfiles.process_files import ProcessFiles


@dataclass(frozen=True)
class EndNote:
    """The note of one process."""

    time: float
    """When it raised or began to exit, in seconds since 1970."""
    is_refusal: bool
    """Whether it is a worker with an error of usage, or over a state that does not fit, before it began."""


def write_end(path: Path, *, is_refusal: bool = False) -> None:
    """Note that the process ends now; the first note stays."""
    with contextlib.suppress(OSError), open(path, "x") as file:
        file.write(json.dumps({"time": time.time(), "is_refusal": is_refusal}))


def read_end(path: Path) -> EndNote | None:
    """What a process has noted; None if it has not begun to end, or had no time to say so."""
    moment = whole.moment(path)
    return None if moment is None else EndNote(moment, bool((whole.read(path) or {}).get("is_refusal")))


def note_the_end() -> None:
    """From now on note the first of: an uncaught exception, the interpreter's exit. Nothing without FLEET_NOTE_FILE.

    Call it again after other handlers have been registered: the last hook is the first to be called. The first note
    stays, so that does no harm.
    """
    files = ProcessFiles.own()
    if files is None:
        return
    hook = getattr(sys.excepthook, "__self__", None)
    recorder = hook if isinstance(hook, _Recorder) else _Recorder(files)
    atexit.unregister(recorder.note)
    atexit.register(recorder.note)


def watch_exit() -> None:
    """From now on `has_failed` knows of sys.exit() with an error; it would leave no trace for handlers of the end."""
    if sys.exit is not _exit:
        sys.exit = _exit
        if threading.current_thread() is threading.main_thread():
            _scripts[:] = [_outermost_frame()]


def has_failed() -> bool:
    """Whether this process is ending because of an exception or, since `watch_exit`, of sys.exit() with an error.

    In a durable job, where one that failed is started again, also because of a SystemExit that was raised otherwise:
    its code is not known, and a worker that says too little is waited for, while one that says good-bye is not.
    """
    if any(code not in (None, 0) for code in _exits) or getattr(sys, "last_value", None) is not None:
        return True
    return env.FLEET_DURABLE.get() is not None and not _exits and _was_left_by_an_exception(_scripts)


def begin_work() -> None:
    """From now on this worker has what it needs: an error of usage may have come by chance, such as a full disk."""
    _begun.append(True)


def end_in_vain(error: Exception) -> NoReturn:
    """End this process over what no other life of it would mend: one line, and exit code 2."""
    if (files := ProcessFiles.own()) is not None:
        write_end(files.end(os.getpid()), is_refusal=True)
    print(error, file=sys.stderr, flush=True)
    raise SystemExit(UNUSABLE)


def note_now() -> None:
    """Note that this process ends, for one that is about to end without an exception or the interpreter's exit."""
    files = ProcessFiles.own()
    if files is not None:
        write_end(files.end(os.getpid()))


UNUSABLE = 2
"""The exit code of a process that refuses what it finds: a damaged journal, servers that do not belong together."""
SAVED = 75
"""The exit code of a worker that was told to save and stop, and of a job whose workers were: run it again."""
_exits: list[object] = []
"""What sys.exit() was given, by the one call that ends the process."""
_begun: list[bool] = []
"""Not empty once this worker has begun."""
_scripts: list[FrameType] = []
"""The outermost frame of the main thread, where the script is run."""


def _outermost_frame() -> FrameType:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _was_left_by_an_exception(frames: list[FrameType]) -> bool:
    """Whether one of these frames, which runs no more, did not come to its end; then its last word was no return."""
    last = [frame.f_code.co_code[frame.f_lasti] for frame in frames if frame is not _outermost_frame()]
    return any(not dis.opname[code].startswith("RETURN_") for code in last)


class _Exit(SystemExit):
    """What sys.exit() raises. It notes its code when deleted with no frame left: one that was caught ends nothing."""

    def __del__(self) -> None:
        is_last = sys._getframe().f_back is None and threading.current_thread() is threading.main_thread()
        if is_last:
            _exits.append(self.code)


def _exit(status: object = None, /) -> NoReturn:
    raise _Exit(status)


class _Recorder:
    """Writes the note of this process, once; its name carries the process id, for children inherit the variable."""

    def __init__(self, files: ProcessFiles) -> None:
        self._pid = os.getpid()
        self._path = files.end(self._pid)
        self._print = sys.excepthook
        sys.excepthook = self._except

    def _except(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if threading.current_thread() is threading.main_thread():  # a thread's error is not the end of the process
            self.note(is_refusal=not _begun and isinstance(error, UsageError | CheckpointError))
        self._print(kind, error, trace)

    def note(self, *, is_refusal: bool = False) -> None:
        if os.getpid() != self._pid:  # a forked child's end is not ours
            return
        write_end(self._path, is_refusal=is_refusal)
