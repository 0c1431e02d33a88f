"""`fleet-serve` as people start it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from support.jobs import clean_environ

LIMIT_S = 120.0
TOKEN = "the-token-of-the-job"


class Replica:
    """One process."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "fleet_serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments]
        environ = clean_environ() | {"FLEET_JOB_TOKEN": TOKEN}
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"listening on (\S+) \(gRPC\) and (\S+) \(HTTP\)", self.process.stdout.readline())
        assert found is not None, self.process.communicate(timeout=LIMIT_S)[1]
        self.endpoint, self.http = found[1], found[2]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """How it ended, and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, said


@contextmanager
def replica(*arguments: str) -> Iterator[Replica]:
    one = Replica(*arguments)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)
