"""Where threads of this process are: stacks with source lines, and the innermost line that the user wrote."""

import contextlib
import linecache
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from types import FrameType

NUM_FRAMES = 12
MAX_CODE = 100
# A source file may lie on a file system that hangs, which can be the very reason of the stall.
CODE_LIMIT_S = 1.0


# Frames under these are not what the user wrote.
_LIBRARIES = os.path.dirname(os.__file__), str(Path(__file__).parents[1]), "<frozen"
# What is installed, here or by whoever a virtual environment borrows from, lies in a folder of one of these names.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def whereabouts(thread: int | None = None) -> tuple[tuple[str, ...], str]:
    """The stack of a thread, innermost line last, and the user's innermost line; of the main thread if it is gone."""
    frames = sys._current_frames()
    main = frames.get(threading.main_thread().ident or 0)
    walked = list(_walk(main if thread is None else frames.get(thread, main)))
    own = next((one for one in walked if not _is_library(one.f_code.co_filename)), None)
    shown = walked[:NUM_FRAMES]
    code = _read_code({(one.f_code.co_filename, one.f_lineno) for one in (*shown, *([] if own is None else [own]))})
    stack = tuple(_line(one, one.f_code.co_filename, code) for one in reversed(shown))
    return stack, "" if own is None else _line(own, Path(own.f_code.co_filename).name, code)


def where_it_trains() -> str:
    """`train.py:42 in load, by sleep`, of the main thread of this process; "" if it has none, or no script's line."""
    return place_of(sys._current_frames().get(threading.main_thread().ident or 0))


def place_of(frame: FrameType | None) -> str:
    """The innermost line that is the user's and, where that calls into a library, the function that it calls."""
    called = ""
    for one in _walk(frame):
        path = one.f_code.co_filename
        if not _is_library(os.path.abspath(path)) and os.path.exists(path):
            return f"{Path(path).name}:{one.f_lineno} in {one.f_code.co_name}" + (f", by {called}" if called else "")
        called = one.f_code.co_name
    return ""


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
