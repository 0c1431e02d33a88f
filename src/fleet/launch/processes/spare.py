"""An interpreter that has imported what a worker needs, for one that is to start without losing time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class Spare:
    """Waits until it is told which program it is to be (`fleet.runtime.spare` is the other side)."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], begin: Callable[[], None]) -> None:
        """`begin` is called in the new process, which otherwise does the `command`. OSError if it cannot be started."""
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=begin,
        )

    def become(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Be a Python program from now on; OSError if it has ended."""
        assert self._process.stdin is not None
        told = {"command": list(command[1:]), "environ": dict(environ), "log": str(log.absolute())}
        with self._process.stdin as line:
            line.write(json.dumps(told).encode() + b"\n")
        return self._process

    def close(self) -> None:
        """End it, if it was not needed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
