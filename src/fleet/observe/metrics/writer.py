"""Writes the figures of this process once a second, from a thread of its own, as long as fleetrun may read them."""

import atexit
import os
import time
from pathlib import Path

from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.observe.metrics import device
from fleet.observe.metrics.registry import Registry, registry
from fleet.observe.metrics.reports import reports
from fleet.observe.metrics.steps import steps
from fleet.observe.timing.periodic import Periodic
from fleet.observe.waits.waiting import notice_s
from fleet.observe.whereabouts import where_it_trains

EVERY_S = 1.0
LAST_S = 1.0
"""How long the end of a process waits for its last figures, on a disk that does not answer."""


class FiguresWriter:
    """Writes the figures of one process; a fork of it writes nothing."""

    def __init__(self, base: Path, source: Registry, every_s: float = EVERY_S) -> None:
        self._path = files.figures_file(base.parent, base.name, os.getpid())
        self.pid = os.getpid()
        self._source = source
        thread = Periodic("fleet-metrics", self._write, every_s, LAST_S)
        self.flush, self.stop = thread.flush, thread.stop

    def _write(self, _is_last: bool) -> None:
        samples = [sample.to_json() for sample in self._source.read()]
        written = {"form": files.FORM, "time": time.time(), "pid": self.pid, "samples": samples}
        if steps.idle_s > notice_s() and (where := where_it_trains()):
            written["where"] = where
        whole.replace(self._path, written)


_writers: list[FiguresWriter] = []
"""The writer of this process, if it has one."""


def is_on() -> bool:
    """Whether figures of this process are wanted."""
    return files.own_base() is not None


def begin() -> None:
    """From now on write the figures of this process, until it ends; nothing where nobody would read them."""
    base = files.own_base()
    if base is None or any(one.pid == os.getpid() for one in _writers):
        return
    for source in (steps.read, reports.read, device.read):
        registry.remove(source)
        registry.add(source)
    _writers[:] = [FiguresWriter(base, registry)]
    atexit.register(_writers[0].stop)


def flush() -> None:
    """Write the figures of this process now, if they are written at all."""
    for writer in _writers:
        writer.flush()
