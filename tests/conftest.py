"""Polices every test: no process, thread, port or environment variable may outlive it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from support.processes import MARK, listening_ports, marked_processes

# What may take a moment to disappear: a killed process until its parent or init has reaped it.
PATIENCE_S = 10.0
# Not ours: pytest's own, and what torch sets for itself when its compiler is first imported.
THEIRS = {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"}


@pytest.fixture(autouse=True)
def nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    environ = dict(os.environ)
    threads = set(threading.enumerate())
    listening = listening_ports()
    mark = f"{os.getpid()}:{request.node.nodeid}"
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK)
    deadline = time.monotonic() + PATIENCE_S
    while (left := marked_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"processes left behind: {left}"
    while (new := set(threading.enumerate()) - threads) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not new, f"threads left behind: {new}"
    assert not (ports := listening_ports() - listening), f"ports left open: {ports}"
    changed = {name for name in environ.keys() | os.environ.keys() if environ.get(name) != os.environ.get(name)}
    assert not changed - THEIRS, f"environment variables changed: {changed}"
