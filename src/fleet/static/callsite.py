"""Where in the user's script something was asked for: errors of a program should point there, not into Fleet."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def callsite() -> str:
    """`script.py:12` of the nearest caller that is not Fleet itself; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code.co_filename
        if not code.startswith((_PACKAGE, "<")):
            return f"{Path(code).name}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
