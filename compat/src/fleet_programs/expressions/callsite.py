"""Where in the user's script something was asked for: errors of a program should point there, not into Fleet."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from fleet import errors

_PACKAGES = tuple(
    f"{Path(file).resolve().parents[levels]}{os.sep}" for file, levels in ((__file__, 1), (errors.__file__, 0))
)
_nobodys: tuple[str, ...] = (*_PACKAGES, contextlib.__file__, "<frozen ", "<program ", "<row ")
"""Code that is nobody's script: Fleet, Python's import machinery, what the Executor and rows are made into, and `with`
statements."""


def leave_out(package: str) -> None:
    """Let the files below the folder of `package`, given as the path of its `__init__.py`, be nobody's script too."""
    global _nobodys
    folder = f"{Path(package).resolve().parent}{os.sep}"
    if folder not in _nobodys:
        _nobodys = (*_nobodys, folder)


def callsite() -> str:
    """`script.py:12` of the nearest caller that is not Fleet itself; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code.co_filename
        if not code.startswith(_nobodys):
            return f"{os.path.basename(code)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def prefix() -> str:
    """How an error about the user's script begins: `script.py:12: `, or nothing where no line is known."""
    site = callsite()
    return f"{site}: " if site else ""
