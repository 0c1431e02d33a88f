"""Nothing survives the job, not even when the launcher itself is killed.

Each child dies with the launcher (PR_SET_PDEATHSIG), but its own children do not. So a guard, forked before anything
starts, waits for the launcher's end of a pipe to close; if that happens without a good-bye it ends every process that
carries the job's id in its environment, wherever it has moved to. The launcher sweeps the same way at a normal end.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from fleet import env
from fleet.launch.tls.certificates import remove_private_folder

_GOOD_BYE = b"."
_STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_CHILD_SUBREAPER = 36


def new_job_id() -> str:
    """A unique name; a job started inside another job carries both names, so that the outer one's end is its end."""
    outer = env.FLEET_JOB_ID.get()
    own = os.urandom(8).hex()
    return f"{outer}/{own}" if outer else own


def members(job_id: str, notes: str | None = None) -> list[int]:
    """The processes of a job: those whose environment carries its id, or that of a job inside it.

    With `notes`, the value of their FLEET_NOTE_FILE, those of one child of the launcher.
    """
    entry = f"{env.FLEET_JOB_ID.name}={job_id}".encode()
    note_entry = None if notes is None else f"{env.FLEET_NOTE_FILE.name}={notes}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or another user's
            continue
        is_one = note_entry is None or note_entry in variables
        if is_one and any(variable == entry or variable.startswith(entry + b"/") for variable in variables):
            found.append(int(folder.name))
    return found


def sweep(job_id: str, timeout_s: float = 5.0, notes: str | None = None) -> None:
    """End every process of a job that is still there; with `notes`, of one child of the launcher."""
    deadline = time.monotonic() + timeout_s
    while (left := members(job_id, notes)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def adopt_orphans() -> None:
    """From now on become the parent of descendants whose own parent ends, so that `end_descendants` finds them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> set[int]:
    """The direct children of this process."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def end_descendants(spare: Collection[int], timeout_s: float = 5.0) -> None:
    """End every descendant, even one that has left its group and wiped its environment.

    Direct children in `spare`, with all that descends from them, are left alone: the guard, and what this process had
    started before it became fleetrun (`tensorboard & exec fleetrun ...`).
    """
    import psutil

    deadline = time.monotonic() + timeout_s
    while (ours := children() - set(spare)) and time.monotonic() < deadline:
        for child in ours:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(child)
                for one in (process, *process.children(recursive=True)):
                    one.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        time.sleep(0.005)


def reap_orphans(spare: Collection[int]) -> None:
    """Release adopted children that have ended; those in `spare` are waited for elsewhere."""
    for child in children() - set(spare):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


class Guard:
    """The process that sweeps when the launcher cannot. Make it before any thread and any port."""

    def __init__(self, job_id: str) -> None:
        self.elders = children()
        """Children this process had before it became fleetrun; they are not the job's."""
        read_end, self._write_end = os.pipe()
        # A signal whose handler raises in the middle of the fork would be lost.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPERS)
        self.pid = os.fork()
        if self.pid == 0:
            _guard(job_id, read_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(read_end)

    def watch(self, pid: int) -> None:
        """Tell the guard of a child, whose group it ends too: a program can overwrite its own environment."""
        with contextlib.suppress(OSError):
            os.write(self._write_end, f"{pid}\n".encode())

    def forget(self, pid: int) -> None:
        """Take back `watch`, before the process id can become somebody else's."""
        with contextlib.suppress(OSError):
            os.write(self._write_end, f"-{pid}\n".encode())

    def dismiss(self) -> None:
        """Say that the job ended in order, and wait for the guard to leave."""
        with contextlib.suppress(OSError):  # it was killed itself
            os.write(self._write_end, _GOOD_BYE)
        os.close(self._write_end)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def watched(notes: bytes) -> set[int]:
    """The process ids that stand after these notes, in their order: an id may be used again in a later round."""
    found: set[int] = set()
    for number in map(int, notes.split()):
        if number > 0:
            found.add(number)
        else:
            found.discard(-number)
    return found


def _guard(job_id: str, read_end: int) -> None:
    """The guard's whole life; never returns."""
    try:
        os.setsid()  # out of reach of the terminal's Ctrl-C
        for number in _STOPPERS:
            signal.signal(number, signal.SIG_IGN)
        # Keep no port and no pipe of the launcher open; stdout stays, a pipeline's reader waits for us as for the job.
        os.closerange(3, read_end)
        os.closerange(read_end + 1, os.sysconf("SC_OPEN_MAX"))
        heard = b""
        while chunk := os.read(read_end, 4096):
            heard += chunk
        if not heard.endswith(_GOOD_BYE):
            for pid in watched(heard):
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
            sweep(job_id, timeout_s=8.0)
            remove_private_folder(job_id)
    finally:
        os._exit(0)
