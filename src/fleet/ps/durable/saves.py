"""The saves of a server: written while the caller waits, or copied at once and written while training goes on.

A save is known by its folder, which has an id of its own. The first call begins it, in the background with a copy. The
same call again, also after a lost connection, begins nothing: it is told how far the save is, and in the end what was
written or what went wrong.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from fleet import _native, checkpoint
from fleet.checkpoint import ReadableTable, TouchedRows
from fleet.cores import num_cores
from fleet.errors import CheckpointError, DeadlineError, FleetError
from fleet.ps.durable import storage
from fleet.ps.held.holdings import Holdings
from fleet.ps.held.touched import TableKeys
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import callers

if TYPE_CHECKING:
    from fleet.ps.steps.state import ServerState

log = logging.getLogger(__name__)

# So much of the free memory is left to training while a copy is held.
SPARE_BYTES = 64 << 20
# How long a save waits for the one before it, if that writes no file; how long a caller waits for a whole save; and how
# many saves are remembered.
IDLE_S = 60.0
LONGEST_S = 3600.0
NUM_KEPT = 4


class FrozenTable:
    """A copy of the rows of a table, in the portions in which they are written; each is freed once it is written."""

    def __init__(self, table: ReadableTable, pool: Executor) -> None:
        self.width, self.state_width, self.has_clicks = table.width, table.state_width, table.has_clicks
        self.num_shards, self.all_bytes, self.has_disk = table.num_shards, table.all_bytes, False
        groups = checkpoint.shard_groups(self)
        self._portions = dict(zip(groups, pool.map(lambda group: table.export(*group), groups), strict=True))

    def export(self, first_shard: int, last_shard: int) -> dict[str, npt.NDArray[Any]]:
        """The rows of one of the portions, once."""
        return self._portions.pop((first_shard, last_shard))


Moved = Callable[[], None]


class SaveMoment(NamedTuple):
    """How far training was when a server wrote."""

    version: int
    steps: tuple[int, ...] = ()
    """How many steps each worker had made, in all its lives."""

    @classmethod
    def of(cls, state: ServerState) -> SaveMoment:
        """The present moment."""
        workers = range(state.held.job.num_workers)
        return cls(state.rounds.version, tuple(state.ledger.history(worker)[0] for worker in workers))


class Write(threading.Thread):
    """One server's part of a checkpoint or an inference copy on its way to the disk."""

    def __init__(
        self,
        folder: str,
        moment: SaveMoment,
        work: Callable[[Moved], str],
        *,
        values_only: bool = False,
        is_awaited: bool = False,
        cut: int = 0,
    ) -> None:
        """`work` writes, and returns an account of it. `is_awaited`: those who ask are answered at the end only."""
        super().__init__(name="fleet-save", daemon=True)
        self.folder = folder
        self.moment = moment
        self.values_only = values_only
        self.cut = cut
        self.num_files = 0
        self._is_awaited = is_awaited
        self._work: Callable[[Moved], str] | None = work
        self._pieces = ""
        self._failure: FleetError | None = None
        self.is_over = False
        self._changed = threading.Condition()

    def run(self) -> None:
        self._write()
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def _write(self) -> None:
        """Do the work. Once others learn of its end, nothing refers to the copy any more."""
        work, self._work = self._work, None
        assert work is not None
        try:
            self._pieces = work(self._count)
        except FleetError as error:
            self._failure = error.with_traceback(None)
        except Exception as error:  # of any kind: whoever asks for the outcome must learn of it
            self._failure = CheckpointError(f"a save into {self.folder} failed: {error!r}")
        if self._failure is not None:
            log.error("%s", self._failure)

    def _count(self) -> None:
        self.num_files += 1

    def ends(self) -> bool:
        """Wait for its end as long as it goes on writing files; whether it has ended."""
        while self.is_alive():
            known = self.num_files
            self.join(IDLE_S)
            if self.is_alive() and self.num_files == known:
                return False
        return True

    def answer(self, timeout_s: float) -> ps_pb2.SaveReply.Header:
        """How far the write is, after `timeout_s` at most; CheckpointError if it has failed."""
        with self._changed:
            limit_s = LONGEST_S if self._is_awaited else timeout_s
            is_over = callers.wait_for(self._changed, lambda: self.is_over, limit_s)
        if self._is_awaited and not is_over:
            raise DeadlineError(f"waited {LONGEST_S:g} s for this server to write into {self.folder}")
        if self._failure is not None:
            raise self._failure
        return ps_pb2.SaveReply.Header(
            pieces=self._pieces,
            is_written=is_over,
            num_files=self.num_files,
            version=self.moment.version,
            steps=self.moment.steps,
        )


class Saves:
    """All saves of one server; one at a time is written in the background.

    Inside `applying` nothing changes.
    """

    def __init__(
        self, applying: AbstractContextManager[object], mark: Callable[[ps_pb2.Tracked], Sequence[TableKeys]]
    ) -> None:
        """`mark` says, within `applying`, what changed since the parent of a save."""
        self._applying = applying
        self._mark = mark
        self._beginning = threading.Lock()  # one save in the background at a time
        self._noting = threading.Lock()  # guards what follows
        self._writes: dict[str, Write] = {}
        """By folder, the last one newest."""
        self._last_copy: Write | None = None

    def save(
        self, holdings: Holdings, header: ps_pb2.SaveRequest.Header, moment: Callable[[], SaveMoment]
    ) -> ps_pb2.SaveReply.Header:
        """Answer a call of `Save`."""
        folder, known = header.folder, self._writes.get(header.folder)
        if known is None and header.in_background and not header.values_only:
            with self._beginning:
                known = self._writes.get(folder) or self._begin(holdings, header, moment)
        if known is None:
            path = storage.check_folder(holdings, folder)
            if header.values_only or not header.tracked.mark:
                save = partial(storage.save, holdings, folder, values_only=header.values_only)
            else:
                with self._applying:
                    save = partial(storage.write, in_place(holdings, self._mark(header.tracked)), path)
            write = Write(folder, moment(), save, values_only=header.values_only, is_awaited=True)
            known = self.start(write)
        return self.answer(known, header)

    def known(self, folder: str, cut: int) -> Write | None:
        """The save of a cut into a folder, if it was begun."""
        found = self._writes.get(folder)
        return found if found is not None and found.cut == cut else None

    @property
    def unfinished(self) -> Write | None:
        """A save that is being written."""
        with self._noting:
            return next((one for one in self._writes.values() if not one.is_over), None)

    @staticmethod
    def answer(known: Write, header: ps_pb2.SaveRequest.Header) -> ps_pb2.SaveReply.Header:
        """How far a save is that was begun, perhaps by a call before this one."""
        if known.values_only != header.values_only:
            raise CheckpointError(
                f"{header.folder} is that of another save, which this server has begun; begin a new one"
            )
        return known.answer(header.timeout_ms / 1000)

    def start(self, write: Write) -> Write:
        """The write, begun; or the one into the same folder that another call has begun meanwhile.

        One of an earlier cut does not count: that is over, and its files are removed.
        """
        with self._noting:
            known = self._writes.get(write.folder)
            if known is None or known.cut != write.cut:
                known = self._writes[write.folder] = write
                write.start()
                over = [one.folder for one in self._writes.values() if not one.is_alive()]
                for folder in over[: max(0, len(self._writes) - NUM_KEPT)]:
                    del self._writes[folder]
        return known

    def _begin(
        self, holdings: Holdings, header: ps_pb2.SaveRequest.Header, moment: Callable[[], SaveMoment]
    ) -> Write | None:
        """Copy, and begin to write; None if there is no room for a copy."""
        path = storage.check_folder(holdings, header.folder)
        last = self._last_copy
        if last is not None and not last.ends():
            raise CheckpointError(
                f"server {holdings.server} still writes the checkpoint before, into {last.folder}, and not a file of "
                f"it for {IDLE_S:g} s; is its disk in order?"
            )
        with self._applying:
            if (contents := copied(holdings, self._mark(header.tracked))) is None:
                return None
            work = partial(storage.write, contents, path)
            self._last_copy = write = Write(header.folder, moment(), work)
        return self.start(write)


def in_place(holdings: Holdings, keys: Sequence[TableKeys] = ()) -> storage.ServerContents:
    """What a server holds, without a copy; of a table of which it is known which rows have changed, these alone."""
    return storage.ServerContents.of(holdings, _asked(holdings, keys))


def _asked(holdings: Holdings, keys: Sequence[TableKeys]) -> Sequence[_native.Table | TouchedRows]:
    """Each table; or its rows that have changed, where that is known and it does not lie on a disk."""
    return [
        TouchedRows(one, keys[i].keys) if keys and not keys[i].is_all and not one.has_disk else one
        for i, one in enumerate(holdings.tables)
    ]


def copied(holdings: Holdings, keys: Sequence[TableKeys] = ()) -> storage.ServerContents | None:
    """A copy of what a server holds, made while nothing changes; None, and a word in the log, if there is no room.

    Where `keys` says which rows have changed, of them alone.
    """
    asked = _asked(holdings, keys)
    needed = sum(one.memory_bytes for one in asked)
    if (free := free_bytes()) is not None and free < needed + SPARE_BYTES:
        figures = holdings.server, free >> 20, needed >> 20
        log.warning("server %d has %d MB free, for tables of %d MB: they are written while training waits", *figures)
        return None
    try:
        # While a copy is made nobody trains.
        with ThreadPoolExecutor(min(8, num_cores()), "fleet-copy") as pool:
            tables = [
                t.copied() if isinstance(t, TouchedRows) else holdings.sealed(i) if t.has_disk else FrozenTable(t, pool)
                for i, t in enumerate(asked)
            ]
            return storage.ServerContents.of(holdings, tables)
    except (MemoryError, OSError):
        log.warning("server %d has no room for a copy: it writes while training waits", holdings.server)
        return None


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that this process may still take: what the machine has free, or its container; None if unknown."""
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
