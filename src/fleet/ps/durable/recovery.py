"""What the records of a journal mean: a server's state is made from its newest snapshot and the records after it."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from fleet import _native
from fleet.cores import num_cores
from fleet.observe.metrics import events
from fleet.ps.held.applicable import NoRoomError, raise_if_full
from fleet.ps.held.holdings import Holdings, Skip, none
from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.journal.files import MARK_NAME, runs_path
from fleet.ps.journal.mark import read_mark
from fleet.ps.journal.records import JournalError, JournalRecord, Kind
from fleet.ps.journal.segments import SNAPSHOT_KNOWS, read_segments
from fleet.ps.journal.snapshots import newest_snapshot, read_snapshot
from fleet.ps.journal.writer import JournalWriteError
from fleet.ps.steps.changes import CHANGES
from fleet.ps.steps.parts import exported, restore_dense
from fleet.ps.steps.state import ServerState

ROOM_PAUSE_S = 0.2
"""How soon a server that waits for room on a disk looks again."""

_log = logging.getLogger(__name__)

Kept = TypeVar("Kept")


class Recovered(NamedTuple):
    """How far a state was recovered."""

    lsn: int
    """The number of the last record that it has."""
    num_bytes: int
    """The bytes of the records after the snapshot."""
    has_load: bool = False
    """Whether a checkpoint was loaded behind the snapshot, and could not be kept."""


def recover(state: ServerState, folder: Path) -> Recovered:
    """Bring an empty state to where the journal in a folder ends; JournalError if that cannot be trusted."""
    began_at = time.monotonic()
    path = newest_snapshot(folder)
    after, positions = 0, Positions([])
    if path is not None:
        after, positions = when_there_is_room(lambda: restore(state, path))
    replayed = Replay(state, positions)
    last, num_bytes, has_load = after, 0, False
    own = None if path is None else owner(state.instance)
    for record in read_segments(folder, after, own, *least_record(folder, positions.last)):
        replayed.take(record)
        last, num_bytes = record.lsn, num_bytes + record.end - record.begin
        has_load = has_load or record.kind == Kind.LOAD
    if last:
        rows = sum(map(len, state.holdings.tables)) if state.holdings is not None else 0
        _log.info(
            "recovered %d rows at version %d from %s in %.2f s: %d records after the snapshot",
            *(rows, state.rounds.version, folder, time.monotonic() - began_at, last - after),
        )
        events.note("recovered", f"{rows} rows at version {state.rounds.version}, from its journal")
    return Recovered(last, num_bytes, has_load)


def least_record(folder: Path, has: int) -> tuple[int, str]:
    """The record that a journal must have, and who knows it: the mark, or the snapshot with parts of record `has`."""
    mark = read_mark(folder)
    if mark is None or mark.least <= has:
        return has, SNAPSHOT_KNOWS
    return mark.least, f"{folder / MARK_NAME} (remove it to go on from there) knows of"


def when_there_is_room(attempt: Callable[[], Kept]) -> Kept:
    """What `attempt` returns, which is made again while a disk has no room, for as long as workers wait for a server.

    Then JournalWriteError or NoRoomError.
    """
    deadline, has_told = time.monotonic() + rpc_timeout_s(), False
    while True:
        try:
            return attempt()
        except (JournalWriteError, NoRoomError) as error:
            if time.monotonic() > deadline:
                raise
            if not has_told:
                has_told = True
                why = str(error)  # a log that kept the error would keep the tables that could not be filled
                _log.warning("waiting for up to %g s until this server can serve: %s", rpc_timeout_s(), why)
        time.sleep(ROOM_PAUSE_S)


def owner(instance: int) -> bytes:
    """What the first record of every segment says: whose journal it is."""
    return json.dumps({"format": 1, "instance": instance}).encode()


class Positions:
    """The last record that each shard of each table has, where a snapshot brought it there."""

    def __init__(self, of_tables: Sequence[Sequence[int]]) -> None:
        self._of_tables = [list(one) for one in of_tables]
        self.last = max((max(one) for one in self._of_tables if one), default=0)

    def skip(self, lsn: int) -> Skip:
        """The shards, as bits, that have record `lsn` already."""
        if lsn > self.last:
            return lambda _: 0
        return lambda table: sum(1 << shard for shard, has in enumerate(self._of_tables[table]) if has >= lsn)


class Replay:
    """Makes the changes of a journal's records again, by the table of changes."""

    def __init__(self, state: ServerState, positions: Positions) -> None:
        self._state = state
        self._positions = positions

    def take(self, record: JournalRecord) -> None:
        """Make one change, when there is room for what it does to rows."""
        when_there_is_room(lambda: self._make(record))

    def _make(self, record: JournalRecord) -> None:
        state = self._state
        if record.kind == Kind.SEGMENT:
            state.instance = int(json.loads(record.parts[0].header)["instance"])
            return
        if state.holdings is not None:
            state.holdings.check_room()  # before anything is changed: it may be made again
        change = CHANGES[record.kind]
        try:
            change.apply(state, change.read(state, record.parts), self._positions.skip(record.lsn))
            if record.kind == Kind.FORGET:
                state.forgotten_at = record.lsn
        except OSError as error:
            raise JournalError(
                f"record {record.lsn} of a journal cannot be made again: {error.strerror or error}; begin anew from a "
                "checkpoint"
            ) from None


def restore(state: ServerState, path: Path) -> tuple[int, Positions]:
    """Fill a state from a snapshot; the record that it begins at, and what its tables have beyond."""
    records = read_snapshot(path)
    first, dense = next(records, None), next(records, None)
    if first is None or dense is None or (first.kind, dense.kind) != (Kind.STATE, Kind.DENSE):
        raise JournalError(f"{path} is no snapshot that this version can read; begin anew from a checkpoint")
    holdings = state.restore(json.loads(first.parts[0].header))
    restore_dense(holdings, dense.parts[0])
    positions = [[first.lsn] * _native.Table.num_shards for _ in holdings.tables]
    sets: list[JournalRecord] = []
    with ThreadPoolExecutor(min(4, num_cores()), "fleet-restore") as pool:
        rows = _of_rows(state, records, sets)
        for begin, end, table, lsn in pool.map(lambda record: _restore_rows(holdings, record, path), rows):
            positions[table][begin:end] = [lsn] * (end - begin)
    for record in sets:
        state.touched.restore(record.parts)
    return first.lsn, Positions([*positions, [max([first.lsn, *(one.lsn for one in sets)])]])  # under the index MARKS


def _of_rows(
    state: ServerState, records: Iterator[JournalRecord], sets: list[JournalRecord]
) -> Iterator[JournalRecord]:
    """The records of rows; pushes that were kept for the present step are kept again. `sets` gets those of keys."""
    for record in records:
        if record.kind == Kind.TOUCHED:
            sets.append(record)
        elif record.kind == Kind.COLLECT:
            change = CHANGES[Kind.COLLECT]
            change.apply(state, change.read(state, record.parts), none)
        else:
            yield record


def _restore_rows(holdings: Holdings, record: JournalRecord, path: Path) -> tuple[int, int, int, int]:
    table, (begin, end), rows = exported(record.parts[0])
    own = holdings.tables[table]
    try:
        for shard, num_keys, names in json.loads(record.parts[0].header).get("files", ()):
            own.attach(shard, num_keys, names, str(runs_path(path)))
        own.import_(rows, holdings.server, holdings.job.num_servers)
    except OSError as error:
        raise_if_full(f"the rows of {path} find no room", error)
        raise JournalError(f"{path} cannot be gone on from: {error.strerror}") from None
    return begin, end, table, record.lsn
