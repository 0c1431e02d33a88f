"""Where the thread that trains is, told of a worker that makes no steps: the line of the script, and what it calls."""

import os
import sys
import threading
from types import FrameType

_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", os.path.dirname(os.__file__) + os.sep)
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def where_it_trains() -> str:
    """`train.py:42 in load, by sleep`, of the main thread of this process; "" if it has none, or no script's line."""
    ident = threading.main_thread().ident
    frame = None if ident is None else sys._current_frames().get(ident)
    return "" if frame is None else place_of(frame)


def place_of(frame: FrameType | None) -> str:
    """The innermost line that is the user's and, where that calls into a library, the function that it calls."""
    called = ""
    while frame is not None:
        path = os.path.abspath(frame.f_code.co_filename)
        if not path.startswith(_OWN) and not any(part in path for part in _LIBRARIES) and os.path.exists(path):
            place = f"{os.path.basename(path)}:{frame.f_lineno} in {frame.f_code.co_name}"
            return f"{place}, by {called}" if called else place
        called = frame.f_code.co_name
        frame = frame.f_back
    return ""
