"""Finds the processes a test has started, however they were orphaned, by a mark in their environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

MARK = "FLEET_TEST_MARK"


def marked_processes(mark: str) -> dict[int, str]:
    """Command line by process id of every process, other than this one, that carries the mark."""
    entry = f"{MARK}={mark}".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def listening_ports() -> set[int]:
    """The ports this process listens on."""
    connections = psutil.Process().net_connections(kind="tcp")
    return {connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN}


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    """Poll until the condition holds; AssertionError naming it if the time runs out."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.01)


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
