"""Nothing survives the job, not even when the launcher itself is killed.

Each child dies with the launcher (PR_SET_PDEATHSIG), but its own children do not. So a guard, forked before anything
starts, waits for the launcher's end of a pipe to close; if that happens without a good-bye it ends every process that
carries the job's id in its environment, wherever it has moved to. The launcher sweeps the same way at a normal end.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path

from fleet import env

_GOOD_BYE = b"."


def new_job_id() -> str:
    """A unique name; a job started inside another job carries both names, so that the outer one's end is its end."""
    outer = env.FLEET_JOB_ID.get()
    own = secrets.token_hex(8)
    return f"{outer}/{own}" if outer else own


def members(job_id: str) -> list[int]:
    """The processes of a job: those whose environment carries its id, or that of a job inside it."""
    entry = f"{env.FLEET_JOB_ID.name}={job_id}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or another user's
            continue
        if any(variable == entry or variable.startswith(entry + b"/") for variable in variables):
            found.append(int(folder.name))
    return found


def sweep(job_id: str, timeout_s: float = 5.0) -> None:
    """End every process of a job that is still there."""
    deadline = time.monotonic() + timeout_s
    while (left := members(job_id)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


class Guard:
    """The process that sweeps when the launcher cannot. Make it before any thread and any port."""

    def __init__(self, job_id: str) -> None:
        read_end, self._write_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _guard(job_id, read_end)
        os.close(read_end)

    def dismiss(self) -> None:
        """Say that the job ended in order, and wait for the guard to leave."""
        os.write(self._write_end, _GOOD_BYE)
        os.close(self._write_end)
        os.waitpid(self._pid, 0)


def _guard(job_id: str, read_end: int) -> None:
    """The guard's whole life; never returns."""
    try:
        os.setsid()  # out of reach of the terminal's Ctrl-C
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # Keep no port and no pipe of the launcher open; stdout stays, a pipeline's reader waits for us as for the job.
        os.closerange(3, read_end)
        os.closerange(read_end + 1, os.sysconf("SC_OPEN_MAX"))
        if os.read(read_end, 1) != _GOOD_BYE:
            sweep(job_id, timeout_s=8.0)
    finally:
        os._exit(0)
