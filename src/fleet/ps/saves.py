"""The saves of a server: written while the caller waits, or copied at once and written while training goes on.

A save in the background is known by its folder. The first call copies and begins; the same call again, also after a
lost connection, tells how far it is, and in the end what was written or what went wrong.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fleet import checkpoint
from fleet.checkpoint import ReadableTable
from fleet.errors import CheckpointError, FleetError
from fleet.ps import storage
from fleet.ps.holdings import Holdings
from fleet.ps.proto import ps_pb2

log = logging.getLogger(__name__)

# Of the memory that is free, so much is left to training while a copy is held.
SPARE_BYTES = 64 << 20
# How long a save waits for the one before it, if that writes no file; and how many are remembered.
IDLE_S = 60.0
NUM_KEPT = 4
# While a copy is made nobody trains.
COPY_THREADS = min(8, os.cpu_count() or 1)


class FrozenTable:
    """The rows of a table as they were, copied in the portions in which they are written; each is let go when it is."""

    def __init__(self, table: ReadableTable, pool: Executor) -> None:
        self.width, self.state_width, self.has_clicks = table.width, table.state_width, table.has_clicks
        self.num_shards, self.memory_bytes = table.num_shards, table.memory_bytes
        groups = checkpoint.shard_groups(self)
        self._portions = dict(zip(groups, pool.map(lambda group: table.export(*group), groups), strict=True))

    def export(self, first_shard: int, last_shard: int) -> dict[str, npt.NDArray[Any]]:
        """The rows of one of the portions, once."""
        return self._portions.pop((first_shard, last_shard))


class BackgroundWrite(threading.Thread):
    """One server's part of a checkpoint on its way to the disk."""

    def __init__(self, contents: storage.Contents, folder: str, version: int) -> None:
        super().__init__(name="fleet-save", daemon=True)
        self.folder = folder
        self.version = version
        self.num_files = 0
        self._contents: storage.Contents | None = contents
        self._pieces = ""
        self._failure: FleetError | None = None

    def run(self) -> None:
        contents, self._contents = self._contents, None
        assert contents is not None
        try:
            self._pieces = storage.write(contents, Path(self.folder), self._count)
        except FleetError as error:
            self._failure = error
        except Exception as error:  # of whatever kind: who asks for the outcome must learn of it
            self._failure = CheckpointError(f"a save into {self.folder} failed: {error!r}")
        if self._failure is not None:
            log.error("%s", self._failure)

    def _count(self) -> None:
        self.num_files += 1

    def ends(self) -> bool:
        """Wait for its end, for as long as it goes on writing files; whether it has come."""
        while self.is_alive():
            known = self.num_files
            self.join(IDLE_S)
            if self.is_alive() and self.num_files == known:
                return False
        return True

    def answer(self, timeout_s: float) -> ps_pb2.SaveReply.Header:
        """How far it is after `timeout_s` at the latest; CheckpointError if it has failed."""
        self.join(timeout_s)
        if self._failure is not None:
            raise self._failure
        return ps_pb2.SaveReply.Header(
            pieces=self._pieces, is_written=not self.is_alive(), num_files=self.num_files, version=self.version
        )


class Saves:
    """All saves of one server; one at a time is written in the background.

    Inside `applying` nothing changes.
    """

    def __init__(self, applying: AbstractContextManager[object]) -> None:
        self._applying = applying
        self._beginning = threading.Lock()
        self._writes: dict[str, BackgroundWrite] = {}
        """By folder, the last one newest; those before it are over."""

    def save(
        self, holdings: Holdings, header: ps_pb2.SaveRequest.Header, version: Callable[[], int]
    ) -> ps_pb2.SaveReply.Header:
        """Answer a call of `Save`."""
        timeout_s = header.timeout_ms / 1000
        if header.in_background and not header.values_only:
            if (known := self._writes.get(header.folder)) is None:
                with self._beginning:
                    known = self._writes.get(header.folder) or self._begin(holdings, header.folder, version)
            if known is not None:
                return known.answer(timeout_s)
        now = version()
        pieces = storage.save(holdings, header.folder, values_only=header.values_only)
        return ps_pb2.SaveReply.Header(pieces=pieces, is_written=True, version=now)

    def _begin(self, holdings: Holdings, folder: str, version: Callable[[], int]) -> BackgroundWrite | None:
        """Copy, and begin to write; None if there is no room for a copy."""
        storage.check_folder(holdings, folder)
        last = next(reversed(self._writes.values()), None)
        if last is not None and not last.ends():
            raise CheckpointError(
                f"server {holdings.server} still writes the checkpoint before, into {last.folder}, and not a file of "
                f"it for {IDLE_S:g} s; is its disk in order?"
            )
        needed = sum(table.memory_bytes for table in holdings.tables)
        if (free := free_bytes()) is not None and free < needed + SPARE_BYTES:
            log.warning(
                "server %d has %d MB free and holds tables of %d MB: they are written while training waits",
                holdings.server,
                free >> 20,
                needed >> 20,
            )
            return None
        try:
            with self._applying, ThreadPoolExecutor(COPY_THREADS, "fleet-copy") as pool:
                contents = storage.Contents.of(holdings, [FrozenTable(table, pool) for table in holdings.tables])
                write = BackgroundWrite(contents, folder, version())
        except MemoryError:
            log.warning("server %d has no memory for a copy: it writes while training waits", holdings.server)
            return None
        write.start()
        self._writes[folder] = write
        while len(self._writes) > NUM_KEPT:
            del self._writes[next(iter(self._writes))]
        return write


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that this process may still take: what the machine has free, or its container; None where nobody says."""
    found = []
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        pass
    try:
        group = root / "sys/fs/cgroup"
        limit, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        found.append(int(limit) - int(used))
    except (OSError, ValueError):  # no container, or one without a limit, which is the word "max"
        pass
    return min(found, default=None)
