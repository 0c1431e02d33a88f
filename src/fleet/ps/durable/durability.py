"""How a server outlives its process: a journal of every change, a snapshot now and then, and recovery from both."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fleet import _native, env
from fleet.errors import CheckpointError, CommunicationError, UsageError
from fleet.jobfiles.kept import counted_life
from fleet.jobfiles.layouts import own_layout
from fleet.observe.metrics import events
from fleet.ps.durable.recovery import Recovered, owner, recover, when_there_is_room
from fleet.ps.durable.scrub import Scrub
from fleet.ps.held.holdings import Holdings
from fleet.ps.journal.copied import CopiedJournal
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.journal.snapshots import SnapshotWriter, clear, clear_unfinished
from fleet.ps.journal.writer import Journal, Policy
from fleet.ps.steps.parts import dense_part, rows_part, state_part
from fleet.ps.wire import faults

if TYPE_CHECKING:
    from fleet.ps.steps.core import Core
    from fleet.ps.steps.state import ServerState

SNAPSHOT_BYTES = 512 << 20
"""How long a journal may grow before a snapshot takes its place; and never less than the snapshot itself."""
ROWS_AT_ONCE = 100_000
"""How many rows are copied while training waits."""
FORGET_S = 0.5  # how soon a server, or its copy, begins to let go of what was forgotten

AWAITED_LATER = {Kind.PUSH, Kind.COLLECT, Kind.COMPLETE}
"""Records of changes that are made before the copy has them; who asked is answered afterwards (`Core.awaited`)."""

_log = logging.getLogger(__name__)
_nothing: AbstractContextManager[None] = nullcontext()


def own_journal(name: str) -> tuple[Path, Policy] | None:
    """Where a server of a durable job keeps its journal, and how; None in any other job."""
    folder = env.FLEET_DURABLE.get()
    policy = env.FLEET_JOURNAL.get() or "OS"
    if folder is None or policy == "OFF":
        return None
    return Path(folder) / name, cast(Policy, policy)


class Copied:
    """What a journal asks of the second copy of its server, and the server that has none."""

    is_filling = False
    """Whether a copy reads the newest snapshot: until it has, no other takes its place."""
    needs: int | None = None
    """The first segment that a copy still reads; None: there is no copy."""

    awaited = 0
    """The record that the copy must have before anybody is told of what has changed until now; 0: none."""

    def recorded(self, lsn: int, *, waits: bool) -> None:
        """A record was written; return when the copy has it, where it must, and the caller waits here."""

    def wait(self, lsn: int) -> None:
        """Return when the copy has a record, where it must."""

    def replaced(self, lsn: int) -> None:
        """Everything was replaced with record `lsn`: return when no copy without it counts any more."""

    def pass_on(self, segment: int) -> None:
        """Return when the copy reads a segment, or a later one, or takes too long: those before are about to go."""

    def give_way(self, why: str) -> bool:  # noqa: ARG002
        """Let the copy take the place of this server, which has lost rows; whether there is one that may."""
        return False


class Durability:
    """The journal and the snapshots of one server, in a folder of its own."""

    def __init__(self, core: Core, folder: Path, policy: Policy) -> None:
        """Recover the state that the folder holds, if any, and go on from there.

        A copy (`core.is_copy`) goes on as a copy, until it leads.
        """
        self._core = core
        self.folder = folder
        """Where journal and snapshots lie."""
        self.copied = Copied()
        self.position: Callable[[], int] | None = None
        """The last record that the state of a copy has, whose journal may have more; None: this is no copy."""
        self.fill_again: Callable[[str], None] = lambda _: None
        """Has a copy begin anew, and why."""
        if env.FLEET_LIFE.get() and not folder.exists():  # fleetrun has made it for the first life
            raise UsageError(
                f"{folder}, where this server kept its journal, is gone, and with it what the server knew; bring it "
                "back, or begin anew from the last checkpoint"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"a server cannot keep its journal in {folder}: {error.strerror or error}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise UsageError(
                f"another server keeps its journal in {folder}; give every job a folder of its own"
            ) from None
        self.life = counted_life(folder)
        """Which life of this server it is, from 0."""
        try:
            clear_unfinished(folder)
            if core.is_copy and not env.FLEET_LIFE.get():
                clear(folder)  # of the server that was on this machine once
            found = self._recovered()
            kind = CopiedJournal if core.is_copy else Journal
            self.journal = _open(kind, folder, policy, found.lsn, owner(core.state.instance))
        except BaseException:
            os.close(self._lock)
            raise
        self.resumed_from = None if core.state.holdings is None else folder
        """The folder whose job this server goes on with; None if it held none."""
        self.snapshotting = threading.Lock()
        self._next_at = SNAPSHOT_BYTES - found.num_bytes
        if found.has_load and core.state.holdings is not None and not core.is_copy:
            self._next_at = -1  # at once: a copy is filled anew whenever it meets a load behind the snapshot
        if core.state.num_forgotten:  # a former life may have been killed before the last old file went
            core.state.forgotten_at = core.state.forgotten_at or 1
        self._is_due = threading.Event()
        self._is_closed = False
        self._num_snapshots = 0
        self._snapshot_at = -found.num_bytes
        """The byte of the journal at which the last snapshot was taken."""
        self._thread = threading.Thread(target=self._take_snapshots, name="fleet-snapshot", daemon=True)
        self._thread.start()
        self.scrub = Scrub(self.journal, self._files_in_use, self._mend)

    def _recovered(self) -> Recovered:
        """Bring the state to where the journal ends; a copy that cannot be trusted is empty: it is filled again."""
        try:
            return recover(self._core.state, self.folder)
        except CheckpointError as error:
            if not self._core.is_copy:
                raise
            _log.warning("this copy begins anew: %s", error)
            self._core.begin_anew()
            clear(self.folder)
            return Recovered(0, 0)

    def append(self, kind: Kind, parts: Sequence[RecordPart]) -> None:
        """Write a record; JournalWriteError if that cannot be done."""
        lsn = self.journal.append(kind, parts)
        if self.journal.num_bytes > self._next_at:
            self._is_due.set()
        self.copied.recorded(lsn, waits=kind not in AWAITED_LATER)

    def counts(self) -> dict[str, int]:
        """What was written in this life."""
        return {"bytes": self.journal.num_bytes, "record": self.journal.lsn, "snapshots": self._num_snapshots}

    @property
    def lag(self) -> tuple[int, int]:
        """Bytes of the journal after the last snapshot; records that should be on the disk and may not be."""
        return self.journal.num_bytes - self._snapshot_at, self.journal.num_unsynced

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Within this nothing changes, and no snapshot is written."""
        with self.snapshotting, self._core.gate.closed:
            yield

    def keep_whole(self) -> str | None:
        """Keep everything as a snapshot, within `undisturbed`, before anybody is told; why not, if it cannot be."""
        try:
            lsn = self.journal.append(Kind.LOAD, [RecordPart(b"")])
            self._write_snapshot(is_alone=True)
        except (OSError, CommunicationError) as error:
            return _why(error)
        self.copied.replaced(lsn)
        return None

    def lead(self) -> None:
        """The copy whose journal this is has become the server."""
        self._copy.lead(owner(self._core.state.instance))
        self.position = None
        self.resumed_from = None if self._core.state.holdings is None else self.folder

    def begin_anew(self) -> None:
        """Remove what a copy has, which is to be filled; under the closed gate."""
        self._copy.begin_anew(lambda: clear(self.folder))
        self._next_at = self.journal.num_bytes + SNAPSHOT_BYTES

    def receive(self, segment: int, records: memoryview, last_lsn: int) -> None:
        """Write down what a copy has been sent; JournalWriteError if that cannot be done."""
        self._copy.receive(segment, records, last_lsn)
        if self.journal.num_bytes > self._next_at:
            self._is_due.set()

    @property
    def _copy(self) -> CopiedJournal:
        assert isinstance(self.journal, CopiedJournal)
        return self.journal

    def close(self, *, is_finished: bool) -> None:
        """Stop; if the job is finished, remove everything."""
        self._is_closed = True  # first: the scrub may be writing a snapshot
        self._is_due.set()
        self.scrub.close()
        self._thread.join()
        self.journal.close()
        if is_finished:
            clear(self.folder)
        os.close(self._lock)

    def _files_in_use(self) -> Sequence[Path]:
        holdings = self._core.state.holdings
        return [] if holdings is None else holdings.files_of_rows()

    def _mend(self, is_lost: bool, why: str) -> str:
        """Put something in the place of what is damaged, and say what; "" where rows are lost and nobody has them."""
        if self._core.is_copy:
            self.fill_again(why)
            return "its server fills this copy again"
        if is_lost:
            return "the copy of this server takes its place" if self.copied.give_way(why) else ""
        with self.snapshotting:
            self._renew()
        return "a new snapshot has taken its place"

    def _renew(self) -> None:
        """Take a snapshot now, and let go of everything that was written before; within `snapshotting`."""
        self._core.refuse_failed()
        self._core.refuse_moved()
        self.journal.roll()
        segment, _ = self.journal.end
        self._write_snapshot()
        self.copied.pass_on(segment)
        self.journal.drop_before(segment - 1)

    def _drop_forgotten(self, state: ServerState) -> None:
        """Let go of all files that have rows which were forgotten; a copy once its server has begun another segment."""
        at, (segment, _) = state.forgotten_at, self.journal.end
        if not self._core.is_copy:
            self._renew()
        elif segment > at and self._lsn() >= segment - 1:
            self._write_snapshot()
        else:
            return
        if state.forgotten_at == at:
            state.forgotten_at = 0

    def _take_snapshots(self) -> None:
        while True:
            self._is_due.wait(FORGET_S)
            self._is_due.clear()
            if self._is_closed:
                return
            state, is_large = self._core.state, self.journal.num_bytes > self._next_at
            if not (state.forgotten_at or is_large) or (self.copied.is_filling and self._next_at >= 0):
                continue
            try:
                with self.snapshotting:
                    self._drop_forgotten(state) if state.forgotten_at else self._write_snapshot()
            except Exception as error:  # of any kind, such as no memory: the next may succeed
                if self._core.is_moved or self._is_closed:
                    return
                _log.warning("no snapshot could be taken in %s: %s", self.folder, _why(error))
                self._next_at = self.journal.num_bytes + SNAPSHOT_BYTES // 4
                self._is_due.wait(20 * FORGET_S)

    def _write_snapshot(self, *, is_alone: bool = False) -> None:
        """Copy piece by piece, each while nothing changes; `is_alone`: nothing changes anyway."""
        core, holdings, began_at = self._core, self._core.state.held, time.monotonic()
        closed = _nothing if is_alone else core.gate.closed
        with closed:
            core.refuse_failed()
            lsn, begin = self._lsn(), self.journal.num_bytes
            parts = state_part(core.state), dense_part(holdings)
            kept = core.state.rounds.waiting() if core.keeps_pushes else []
        with SnapshotWriter(self.folder, lsn) as writer:
            writer.write(Kind.STATE, lsn, [parts[0]])
            writer.write(Kind.DENSE, lsn, [parts[1]])
            for update in kept:
                writer.write(Kind.COLLECT, lsn, [update.record or RecordPart(b"")])
            for index in range(len(holdings.tables)):
                for shards in portions(holdings, index):
                    if self._is_closed:
                        raise CommunicationError("the server is stopping")
                    with closed:
                        core.refuse_failed()  # a table may have a part of what the journal says
                        at, part = self._lsn(), self._rows(index, shards, writer)
                    writer.write(Kind.ROWS, at, [part])
            with closed:
                at, sets = self._lsn(), core.state.touched.parts()
            if sets:  # behind all rows: what has changed before they were copied is in the sets
                writer.write(Kind.TOUCHED, at, sets)
            self.journal.sync()  # or after a loss of power the snapshot would have what the journal lacks
            writer.finish()
        needs = self.copied.needs
        self.journal.drop_before(lsn if needs is None else min(lsn, needs - 1))
        self._num_snapshots += 1
        self._snapshot_at = begin
        self._next_at = begin + max(SNAPSHOT_BYTES, writer.num_bytes)
        took_s = time.monotonic() - began_at
        events.note("snapshot", f"{writer.num_bytes >> 20} MB at record {lsn}")
        _log.info("snapshot of %d MB at record %d in %.1f s", writer.num_bytes >> 20, lsn, took_s)

    def _lsn(self) -> int:
        """The last record that the state has; under the closed gate."""
        return self.journal.lsn if self.position is None else self.position()

    def _rows(self, index: int, shards: tuple[int, int], writer: SnapshotWriter) -> RecordPart:
        """A copy of the rows of some shards; of those in sealed files, links to the files."""
        table = self._core.state.held.tables[index]
        if not table.has_disk:
            return rows_part(index, shards, table.export(*shards))
        files, rows = table.seal(*shards, str(writer.runs()), f"{index}-")
        self.scrub.refuse_damaged(writer.runs() / name for _, _, names in files for name in names)
        return rows_part(index, shards, rows, files)


def _open(kind: type[Journal], folder: Path, policy: Policy, last_lsn: int, owner_text: bytes) -> Journal:
    """The journal, open for writing; a server of a job that has begun waits for room on the disk."""
    fault = faults.of_writes()

    def attempt() -> Journal:
        return kind(folder, policy, last_lsn, owner_text, fault)

    has_others = last_lsn or own_layout()  # who begins in the place of other servers is not alone either
    return when_there_is_room(attempt) if has_others else attempt()


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or repr(error)


def portions(holdings: Holdings, table: int) -> Iterator[tuple[int, int]]:
    """Ranges of shards that together have few enough rows to be copied at once."""
    num_shards = _native.Table.num_shards
    each = max(1, num_shards * ROWS_AT_ONCE // max(1, len(holdings.tables[table])))
    for begin in range(0, num_shards, each):
        yield begin, min(num_shards, begin + each)
