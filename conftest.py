"""Polices every test: no process, thread, port or environment variable may outlive it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from support import warm
from support.processes import MARK, listening_ports, marked_processes, newest_process

# What may take a moment to disappear: a killed process until its parent or init has reaped it.
PATIENCE_S = 30.0
# Not ours: pytest's own, and what torch's compiler and Triton set for themselves when they are first used.
THEIRS = {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_PTXAS_PATH"}
# The bars of torch's compiler are watched for good.
THEIR_THREADS = {"tqdm_monitor"}


def pytest_configure() -> None:
    """Let Ctrl-C be what it is at a terminal: shells let what they start in the background ignore it.

    And let every pass over a program be verified, and nobody look for garbage while modules are imported.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("FLEET_VERIFY_PROGRAMS", "1")  # for the processes that tests start, too


def pytest_collection_finish() -> None:
    """Let torch compute in one thread: how a sum is cut among threads changes its last bits, and cores are shared.

    Let what was imported and collected be no garbage: half a million objects take longer than a test to look at. And
    have every logger pass on what it hears: pytest hangs its handlers, three times a test, on each that does not, and
    torch has fifty.
    """
    gc.freeze()
    gc.enable()
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def pytest_sessionfinish() -> None:
    """Plugins that are imported last look for what refers to something."""
    gc.unfreeze()


def pytest_unconfigure() -> None:
    """Look for what tests have left once, of the ten times that pytest would, in half a million objects."""
    gc.collect()
    gc.freeze()


def our_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name not in THEIR_THREADS}


@pytest.fixture(autouse=True)
def messages_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """`pytest.raises(match=...)` looks at the notes of an error too: here a message ends where it ends."""
    errors = sys.modules.get("fleet.errors")
    if errors is None or request.path.name == "test_errors_page.py":
        yield
        return
    notes = vars(errors.FleetError)["__notes__"]
    del errors.FleetError.__notes__
    yield
    errors.FleetError.__notes__ = notes


@pytest.fixture(autouse=True)
def words_end() -> Iterator[None]:
    """What a test says to PaddlePaddle's names, such as `disable_static()`, is not said to the next one."""
    state = sys.modules.get("fleet_paddle.imperative.state")
    with nullcontext() if state is None else state.guard():
        yield


@pytest.fixture(autouse=True)
def nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    environ = dict(os.environ)
    threads = our_threads()
    listening = listening_ports()
    newest = newest_process()  # only what is newer is looked for: reading every environment costs 3 ms a test
    mark = f"{os.getpid()}:{request.node.nodeid}"
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK)
    deadline = time.monotonic() + PATIENCE_S
    while (left := marked_processes(mark, newest) | warm.left_behind()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"processes left behind: {left}"
    while (new := our_threads() - threads) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not new, f"threads left behind: {new}"
    while (ports := listening_ports() - listening) and time.monotonic() < deadline:  # NCCL's outlive its group a little
        time.sleep(0.02)
    assert not ports, f"ports left open: {ports}"
    changed = {name for name in environ.keys() | os.environ.keys() if environ.get(name) != os.environ.get(name)}
    assert not changed - THEIRS, f"environment variables changed: {changed}"
