"""The file in which one process puts its part of a trace: LOG_DIR/observe/workerlog.0.4711.trace.jsonl, a line each.

    {"form": 1, "pid": ..., "boot": ..., "host": ..., "wall_ns": ..., "mono_ns": ..., "window": "20:40"}    first
    ["span", name, thread, begin_ns, end_ns, about]
    ["wire", method, thread, begin_ns, end_ns, about]       a call, from send to answer; `about`: endpoint, worker, ...
    ["request", method, thread, begin_ns, end_ns, about]    one that a server got; `about`: worker, wait, ...
    ["thread", number, name]
    ["over", steps, lost]                                   the last step of the window is behind this process

It is appended to, from a thread of its own, so that a process that is killed has left what it saw. A disk that is full
costs spans and nothing else.
"""

import atexit
import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet import env
from fleet.jobfiles.figures import FOLDER, own_base
from fleet.observe.metrics.steps import steps
from fleet.observe.timing.periodic import Periodic
from fleet.observe.tracing.tracer import Event, Tracer, tracer
from fleet.observe.tracing.window import Window

FORM = 1
ENDING = ".trace.jsonl"
EVERY_S = 0.5
LAST_S = 2.0
"""How long the end of a process waits for its last spans to be written."""
GRACE_S = 1.0
"""How long after the last step calls of the window may still be answered."""


class TraceWriter:
    """Writes the trace of one process; a fork of it writes nothing."""

    def __init__(self, path: Path, window: Window, source: Tracer) -> None:
        self.pid = os.getpid()
        self._path, self._source = path, source
        self._native: list[Callable[[], list[Event]]] = []
        self._over_at: float | None = None
        self._has_told = False
        self._append([_head(window)])
        thread = Periodic("fleet-trace", self._write, EVERY_S, LAST_S)
        self.flush, self.stop = thread.flush, thread.stop

    def also(self, take: Callable[[], list[Event]]) -> None:
        """Ask this for events, too, each time; it is called by the thread that writes."""
        self._native.append(take)

    def _write(self, is_last: bool) -> None:
        events: list[Any] = self._source.take()
        for take in self._native:
            events += take()
        if self._source.is_over and self._over_at is None:
            self._over_at = time.monotonic()
        is_due = self._over_at is not None and time.monotonic() - self._over_at >= GRACE_S
        if not self._has_told and (is_due or is_last):
            self._has_told = True
            events.append(["over", max(0, self._source.step - 1), self._source.num_lost])
        if events:
            self._append(events)

    def _append(self, lines: list[Any]) -> None:
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(text)


def _head(window: Window) -> dict[str, Any]:
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {
        "form": FORM,
        "pid": os.getpid(),
        "boot": boot or socket.gethostname(),
        "host": socket.gethostname(),
        "wall_ns": time.time_ns(),
        "mono_ns": time.monotonic_ns(),
        "window": str(window),
    }


_writers: list[TraceWriter] = []
"""The writer of this process, if it has one."""


def begin() -> TraceWriter | None:
    """Record the steps that FLEET_TRACE asks for, if it does and fleetrun will read them; the writer, if there is one.

    A second call changes nothing.
    """
    text, base = env.FLEET_TRACE.get(), own_base()
    if text is None or base is None:
        return None
    if any(one.pid == os.getpid() for one in _writers):
        return _writers[0]
    window = Window.parse(text)
    _writers[:] = [TraceWriter(base.with_name(f"{base.name}.{os.getpid()}{ENDING}"), window, tracer)]
    tracer.arm(window, steps.num_steps)
    atexit.register(_writers[0].stop)
    return _writers[0]


def flush() -> None:
    """Write the spans that this process has kept, if it records any."""
    for writer in _writers:
        writer.flush()


def own_files(log_dir: Path) -> list[Path]:
    """The parts of a trace that lie in a log folder."""
    return sorted((log_dir / FOLDER).glob(f"*{ENDING}"))
