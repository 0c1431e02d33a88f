"""`python -m fleet.runtime.spare`: a worker that has begun before it is needed.

To import torch takes a worker longer than anything else before its first step. This process has done so, and waits on
its standard input for one line that says which program it is to be; without one it ends.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import threading
from contextlib import suppress
from pathlib import Path

from fleet import env

_NEEDED = ("torch._dynamo", "fleet.nn", "fleet.runtime.modules.start_worker")
"""What a worker imports until its first step of an optimizer."""


def _prepare() -> None:
    """Import what is needed, and give way to who trains: in a thread, for a process could not take that back."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    for name in _NEEDED:
        importlib.import_module(name)


def main() -> None:
    """Wait, then be the program."""
    importlib.import_module("numpy")  # whose library begins threads, which have the priority of whoever imports it
    preparing = threading.Thread(target=_prepare)
    preparing.start()
    preparing.join()
    line = sys.stdin.readline()
    if not line:
        return
    told = json.loads(line)
    env.become(told["environ"])
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    program, *arguments = told["command"]
    if program == "-m":
        sys.argv[:] = arguments
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = [program, *arguments]
        sys.path[0] = str(Path(program).resolve().parent)
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
