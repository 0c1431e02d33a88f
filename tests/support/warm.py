"""Processes that start with their imports behind them, for tests of what a script does once it runs.

`WarmProcess` is asked for like a `subprocess.Popen` and forked by `warm_server`, one for all tests of a session; it is
a fork itself where `make test` has one for all of its parts. How an interpreter, fleetrun and a failing script start
and end is not shown by it: tests of that start real ones.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from support.processes import MARK

SHARED = "FLEET_TEST_WARM"
"""The variable with the place where a session gets a fork of a server that has its imports behind it."""

_SERVER = Path(__file__).with_name("warm_server.py")


class _Server:
    def __init__(self) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: subprocess.Popen[bytes] | None = None
        with theirs:
            if place := os.environ.get(SHARED):
                with socket.socket(socket.AF_UNIX) as door:
                    door.connect(f"\0{place}")
                    socket.send_fds(door, [b"."], [theirs.fileno()])
            else:
                self._process = self._start(theirs)
        self.pid = int(self.control.recv(32))
        atexit.register(self.stop)

    @staticmethod
    def _start(theirs: socket.socket) -> subprocess.Popen[bytes]:
        environ = {name: value for name, value in os.environ.items() if name not in (MARK, "OMP_NUM_THREADS")}
        environ["OPENBLAS_NUM_THREADS"] = "1"  # else it starts threads when numpy is imported
        return subprocess.Popen(
            [sys.executable, _SERVER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environ,
            stdin=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        self.control.close()
        if self._process is not None:
            self._process.wait()


@cache
def _server() -> _Server:
    """One for this session, started when it is first needed."""
    return _Server()


def left_behind() -> dict[int, str]:
    """What each process is, by its id, that was forked and has not ended; the server adopts orphans."""
    if not _server.cache_info().currsize:
        return {}
    pid = _server().pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child): "forked by support.warm" for child in children}


class WarmProcess:
    """`python SCRIPT ...`, `-m MODULE ...` or `-c TEXT ...`, with the methods of a `subprocess.Popen` that tests use.

    Before that may stand `ip netns exec NAME` (`support.hosts.Host.prefix`).
    """

    def __init__(self, command: Sequence[object], cwd: Path, environ: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        self._told, theirs = socket.socketpair()
        with theirs:
            request = json.dumps([[str(part) for part in command], str(cwd), dict(environ)])
            descriptors = [*(file.fileno() for file in self._files), theirs.fileno()]
            socket.send_fds(_server().control, [request.encode()], descriptors)
        self._lines = self._told.makefile()
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        """Its exit code if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""
        if self.returncode is None:
            self._told.settimeout(None if timeout is None else max(timeout, 0.001))
            try:
                self._told.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0) from None
            self._told.settimeout(None)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._told.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote to stdout and stderr, once it has ended."""
        self.wait(timeout)
        for file in self._files:
            file.seek(0)
        out, err = (file.read() for file in self._files)
        return out, err

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Let go of its output."""
        for file in self._files:
            file.close()
