"""Waits until the threads of Gloo rest, so that none of them is caught by the end of the interpreter."""

from __future__ import annotations

import time
from pathlib import Path

_THREAD = "pt_gloo_runloop"
_LOOK_EVERY_S = 0.001
_CALM_LOOKS = 3


def let_gloo_rest(timeout_s: float = 1.0) -> bool:
    """Wait, before the interpreter ends, until Gloo's threads are idle; returns whether they were in time.

    A thread of Gloo lets go of the tensors of a collective after it has told us that the collective is done. If Python
    has dropped them meanwhile, it needs the GIL for that, and a thread that asks for the GIL of an ending interpreter
    takes the process down (`terminate called without an active exception`). Sleeping here lets it have the GIL.
    """
    calm = 0
    deadline = time.monotonic() + timeout_s
    while calm < _CALM_LOOKS:
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY_S)
        calm = calm + 1 if all(state == "S" for state in _states()) else 0
    return True


def _states() -> list[str]:
    """R, S, ... for each thread of Gloo in this process."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == _THREAD:
                # The name, which may hold anything, stands in brackets before the state.
                found.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:  # it has ended
            continue
    return found
