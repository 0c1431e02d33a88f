"""What one worker knows of itself when a collective stalls, as data that travels to the others."""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from fleet.collective.stall.flight import Operation

NUM_FRAMES = 12
MAX_CODE = 100
# A source file may lie on a file system that hangs, which can be the very reason of the stall.
CODE_LIMIT_S = 1.0
# Frames under these are not what the user wrote.
_LIBRARIES = (
    *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")),
    *(str(Path(__file__).parents[2]), "<frozen"),
)
# What a virtual environment borrows lies elsewhere, in a folder of one of these names.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class Stall:
    """A collective that waits, in one group: what the report is about. The same on every worker.

    `number` is 0 where torch's recorder has forgotten the operation.
    """

    backend: str
    group: str
    group_title: str
    members: tuple[int, ...]
    number: int
    title: str
    worker: int
    waited_s: float

    def is_same(self, other: Stall) -> bool:
        """Whether both mean one operation, whoever noticed it."""
        return (self.backend, self.group, self.number) == (other.backend, other.group, other.number)


@dataclass(frozen=True)
class State:
    """Where one worker is, seen from a stall.

    `reached` and `reached_title` are the last collective it enqueued in the stalled group, `own_title` the one that it
    has under the stalled number, `waits_in` what it waits for itself, in whichever group.
    """

    worker: int
    host: str
    pid: int
    reached: int = 0
    reached_title: str = ""
    own_title: str = ""
    waits_in: str = ""
    quiet_s: float = 0.0
    where: str = ""
    stack: tuple[str, ...] = ()


def to_json(value: Stall | State) -> str:
    """One line of JSON, which `stall_from_json` or `state_from_json` reads."""
    return json.dumps(asdict(value))


def stall_from_json(text: str) -> Stall:
    """The stall that `to_json` wrote."""
    found = json.loads(text)
    return Stall(**{**found, "members": tuple(found["members"])})


def state_from_json(text: str) -> State:
    """The state that `to_json` wrote."""
    found = json.loads(text)
    return State(**{**found, "stack": tuple(found["stack"])})


def look_around(
    worker: int, stall: Stall, found: Iterable[Operation], waiting: Operation | None, quiet_s: float
) -> State:
    """The state of this process. `waiting` is what it waits for itself."""
    here = [one for one in found if (one.backend, one.group) == (stall.backend, stall.group)]
    last = max(here, key=lambda one: one.number, default=None)
    own = next((one for one in here if one.number == stall.number), None)
    stack, where = _whereabouts(waiting)
    return State(
        worker=worker,
        host=socket.gethostname(),
        pid=os.getpid(),
        reached=0 if last is None else last.number,
        reached_title="" if last is None else last.title,
        own_title="" if own is None else own.title,
        waits_in="" if waiting is None else waiting.title,
        quiet_s=quiet_s,
        where=where,
        stack=stack,
    )


def _whereabouts(waiting: Operation | None) -> tuple[tuple[str, ...], str]:
    """The stack of the thread that waits, else of the main thread, and the innermost line that the user wrote."""
    frames = sys._current_frames()
    main = frames.get(threading.main_thread().ident or 0)
    frame = frames.get(waiting.thread, main) if waiting is not None else main
    walked = list(_walk(frame))
    own = next((one for one in walked if not _is_library(one.f_code.co_filename)), None)
    shown = walked[:NUM_FRAMES]
    code = _read_code({(one.f_code.co_filename, one.f_lineno) for one in (*shown, *([] if own is None else [own]))})
    stack = tuple(_line(one, one.f_code.co_filename, code) for one in reversed(shown))
    return stack, "" if own is None else _line(own, Path(own.f_code.co_filename).name, code)


def _is_library(path: str) -> bool:
    return path.startswith(_LIBRARIES) or not _INSTALLED.isdisjoint(Path(path).parts)


def _walk(frame: FrameType | None) -> Iterable[FrameType]:
    """From the innermost frame outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _read_code(places: Set[tuple[str, int]]) -> Mapping[tuple[str, int], str]:
    """The source of these files and lines, as far as it can be read in time."""
    found: dict[tuple[str, int], str] = {}

    def read() -> None:
        for path, number in places:
            found[path, number] = linecache.getline(path, number).strip()[:MAX_CODE]

    thread = threading.Thread(target=read, name="fleet-stall-code", daemon=True)
    with contextlib.suppress(RuntimeError):  # the interpreter ends, and no thread can start any more
        thread.start()
        thread.join(CODE_LIMIT_S)
    return found


def _line(frame: FrameType, path: str, code: Mapping[tuple[str, int], str]) -> str:
    """`train.py:33 in main: time.sleep(60)`, or without the code if it could not be read."""
    text = code.get((frame.f_code.co_filename, frame.f_lineno))
    return f"{path}:{frame.f_lineno} in {frame.f_code.co_name}" + (f": {text}" if text else "")
