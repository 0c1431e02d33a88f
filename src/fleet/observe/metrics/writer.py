"""Writes the figures of this process once a second, from a thread of its own, as long as fleetrun may read them."""

from __future__ import annotations

import atexit
import os
import threading
import time
from pathlib import Path

from fleet.observe.metrics import device, files
from fleet.observe.metrics.registry import Registry, registry
from fleet.observe.metrics.reports import reports
from fleet.observe.metrics.steps import steps
from fleet.observe.metrics.where import where_it_trains
from fleet.observe.waiting import notice_s

EVERY_S = 1.0
LAST_S = 1.0
"""How long the end of a process waits for its last figures, on a disk that does not answer."""


class Writer:
    """Of one process; a fork of it writes nothing."""

    def __init__(self, base: Path, source: Registry, every_s: float = EVERY_S) -> None:
        self._path = files.figures_file(base.parent, base.name, os.getpid())
        self._pid = os.getpid()
        self._source = source
        self._every_s = every_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write once more, and end."""
        if os.getpid() == self._pid:
            self._is_over.set()
            self._thread.join(LAST_S)

    def _run(self) -> None:
        while not self._is_over.wait(self._every_s):
            self._write()
        self._write()

    def _write(self) -> None:
        samples = [sample.to_json() for sample in self._source.read()]
        written = {"form": files.FORM, "time": time.time(), "pid": self._pid, "samples": samples}
        if steps.idle_s > notice_s() and (where := where_it_trains()):
            written["where"] = where
        files.replace(self._path, written)


_writers: list[Writer] = []
"""That of this process, if it has one."""


def is_on() -> bool:
    """Whether figures of this process are wanted."""
    return files.own_base() is not None


def begin() -> None:
    """From now on write the figures of this process, until it ends; nothing where nobody would read them."""
    base = files.own_base()
    if base is None or any(one._pid == os.getpid() for one in _writers):
        return
    for source in (steps.read, reports.read, device.read):
        registry.remove(source)
        registry.add(source)
    _writers[:] = [Writer(base, registry)]
    atexit.register(_writers[0].stop)
