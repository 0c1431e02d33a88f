"""Who follows a folder is woken up by the kernel when a batch is put there: to look again and again costs time."""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

from fleet.stream.sinks import LOOK_S, FolderSink, Sink

FAR_S = 0.1
"""How often is looked where the kernel wakes up: it says nothing of what another machine puts into a shared folder."""
_CREATED, _MOVED_TO = 0x100, 0x80


class FolderNotices:
    """Watches the folders of all shards; a system without inotify looks every `LOOK_S`."""

    def __init__(self, sink: FolderSink, stream: str, num_shards: int) -> None:
        self._missing = [sink.folder(stream, shard) for shard in range(num_shards)]
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if self._libc else -1

    def wait(self, timeout_s: float) -> None:
        """Return when there may be another batch, and after a moment anyway."""
        self._missing = [folder for folder in self._missing if not self._watches(folder)]
        if self._file < 0 or self._missing:
            time.sleep(min(LOOK_S, timeout_s))
            return
        told = select.poll()  # `select.select` refuses the descriptors of a process with a thousand connections
        told.register(self._file, select.POLLIN)
        told.poll(1000 * min(FAR_S, timeout_s))
        with suppress(BlockingIOError):
            os.read(self._file, 1 << 16)

    def close(self) -> None:
        """Watch no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    __del__ = close

    def _watches(self, folder: Path) -> bool:
        if self._libc is None or self._file < 0:
            return False
        found: int = self._libc.inotify_add_watch(self._file, os.fsencode(folder), _CREATED | _MOVED_TO)
        return found >= 0


class SinkNotices:
    """A broker says itself when there is something."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def wait(self, timeout_s: float) -> None:
        """Return when there may be another batch, and after a moment anyway."""
        self._sink.wait(min(FAR_S, timeout_s))

    def close(self) -> None:
        """The sink is closed by who has opened it."""


def notices_of(sink: Sink, stream: str, num_shards: int) -> FolderNotices | SinkNotices:
    """What wakes up who follows a stream."""
    return FolderNotices(sink, stream, num_shards) if isinstance(sink, FolderSink) else SinkNotices(sink)
