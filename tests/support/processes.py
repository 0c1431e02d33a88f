"""Finds the processes a test has started, however they were orphaned, by a mark in their environment."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

MARK = "FLEET_TEST_MARK"


def newest_process() -> int:
    """The id that this system has given away last, or 0 where it does not say; ids grow until they begin anew."""
    return int(Path("/proc/loadavg").read_text().split()[-1])


def marked_processes(mark: str, newest: int = 0) -> dict[int, str]:
    """Command line by process id of every process, other than this one, that carries the mark.

    `newest`: what `newest_process` said before the first of them began; it saves looking into those that are older.
    """
    now = newest_process()
    if now == newest != 0:
        return {}
    entry = f"{MARK}={mark}".encode()
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if pid == os.getpid() or (pid <= newest <= now):
            continue
        folder = Path("/proc", str(pid))
        try:
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found[pid] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def listening_ports() -> set[int]:
    """The ports this process listens on, asked of its sockets: the system's own list takes milliseconds a test."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:  # closed by now
            continue
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        with socket.socket(fileno=copy) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6) and one.getsockopt(
                socket.SOL_SOCKET, socket.SO_ACCEPTCONN
            ):
                found.add(int(one.getsockname()[1]))
    return found


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    """Poll until the condition holds; AssertionError naming it if the time runs out."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.01)


def wait_for_listener(host: str, port: int, timeout_s: float) -> None:
    """Until somebody takes connections there."""

    def listens() -> bool:
        try:
            socket.create_connection((host, port)).close()
        except ConnectionRefusedError:
            return False
        return True

    wait_until(listens, timeout_s, f"somebody to listen at {host}:{port}")


def told(path: Path, timeout_s: float, what: str) -> str:
    """What another process has written to a file, once a line of it is complete: a file is there before its text."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), timeout_s, what)
    return path.read_text().strip()


def exists(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
