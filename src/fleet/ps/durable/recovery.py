"""What the records of a journal mean: a server's state is made from its newest snapshot and the records after it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fleet import _native
from fleet.cores import num_cores
from fleet.errors import UsageError
from fleet.observe.metrics import events
from fleet.ps.held.applicable import NoRoomError, raise_if_full
from fleet.ps.held.holdings import Holdings, Skip, make_holdings
from fleet.ps.held.requests import PushedUpdate, read_assigned, read_dense, read_kept, read_push, update_of
from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.job.spec import JobSpec
from fleet.ps.journal.files import runs_path
from fleet.ps.journal.records import JournalError, JournalRecord, Kind, RecordPart
from fleet.ps.journal.segments import read_segments
from fleet.ps.journal.snapshots import newest_snapshot, read_snapshot
from fleet.ps.journal.writer import JournalWriteError
from fleet.ps.meetings.pieces import read_take
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.state import ServerState

ROOM_PAUSE_S = 0.2
"""How soon a server that waits for room on a disk looks again."""

_log = logging.getLogger(__name__)

Kept = TypeVar("Kept")
ShardFiles = tuple[int, int, list[str]]
"""A shard of a table with rows on a disk: how many keys its files have, and their names, the newest first."""


class Recovered(NamedTuple):
    """How far a state was recovered."""

    lsn: int
    """The number of the last record that it has."""
    num_bytes: int
    """The bytes of the records after the snapshot."""


def recover(state: ServerState, folder: Path, device: str) -> Recovered:
    """Bring an empty state to where the journal in a folder ends; JournalError if that cannot be trusted."""
    began_at = time.monotonic()
    path = newest_snapshot(folder)
    after, positions = 0, Positions([])
    if path is not None:
        after, positions = when_there_is_room(lambda: restore(state, path, device))
    replayed = Replay(state, positions, device)
    last, num_bytes = after, 0
    for record in read_segments(folder, after, None if path is None else owner(state.instance), positions.last):
        replayed.take(record)
        last, num_bytes = record.lsn, num_bytes + record.end - record.begin
    if last:
        rows = sum(map(len, state.holdings.tables)) if state.holdings is not None else 0
        _log.info(
            "recovered %d rows at version %d from %s in %.2f s: %d records after the snapshot",
            *(rows, state.rounds.version, folder, time.monotonic() - began_at, last - after),
        )
        events.note("recovered", f"{rows} rows at version {state.rounds.version}, from its journal")
    return Recovered(last, num_bytes)


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
    """Makes the changes of a journal's records again."""

    def __init__(self, state: ServerState, positions: Positions, device: str) -> None:
        self._state = state
        self._positions = positions
        self._device = device
        self._kinds: dict[Kind, Callable[[JournalRecord], None]] = {
            Kind.SEGMENT: self._segment,
            Kind.DECLARE: self._declare,
            Kind.START: self._start,
            Kind.KEEP: self._keep,
            Kind.PUSH: self._push,
            Kind.STEP: self._step,
            Kind.LEAVE: self._leave,
            Kind.LOAD: self._load,
            Kind.SHRINK: self._shrink,
            Kind.MEET: self._meet,
            Kind.ADOPT: self._adopt,
            Kind.TAKE: self._take,
            Kind.ASSIGN: self._assign,
        }

    def take(self, record: JournalRecord) -> None:
        """Make one change, when there is room for what it does to rows."""
        when_there_is_room(lambda: self._make(record))

    def _make(self, record: JournalRecord) -> None:
        if self._state.holdings is not None:
            self._state.holdings.check_room()  # before anything is changed: it may be made again
        try:
            self._kinds[record.kind](record)
        except OSError as error:
            raise JournalError(
                f"record {record.lsn} of a journal cannot be made again: {error.strerror or error}; begin anew from a "
                "checkpoint"
            ) from None

    def _segment(self, record: JournalRecord) -> None:
        self._state.instance = int(json.loads(record.parts[0].header)["instance"])

    def _declare(self, record: JournalRecord) -> None:
        header = ps_pb2.DeclareRequest.Header.FromString(record.parts[0].header)
        if self._state.holdings is None:
            holdings = make_holdings(JobSpec.from_json(header.job), header.server_index, self._device)
            self._state.begin(holdings, header.run)
        if header.caller.incarnation:
            self._state.absent_after_ms = header.absent_after_ms
        self._state.greet(header.caller.worker, header.caller.incarnation, header.life)

    def _start(self, record: JournalRecord) -> None:
        holdings, tensors = self._state.held, record.parts[0].tensors
        num_groups = len(holdings.groups)
        values = read_dense(tensors[:num_groups], holdings.job, holdings.server, "first values")
        holdings.start(values, read_kept(tensors[num_groups:], holdings.job, holdings.server, "first values"))

    def _keep(self, record: JournalRecord) -> None:
        holdings = self._state.held
        holdings.keep(read_kept(record.parts[0].tensors, holdings.job, holdings.server, "kept"))

    def _push(self, record: JournalRecord) -> None:
        update = self._update(record.parts[0])
        skipped = self._state.push(update, self._positions.skip(record.lsn))
        self._state.rounds.version += 1
        self._state.stats.pushed(update, 0, skipped)

    def _step(self, record: JournalRecord) -> None:
        updates, rounds = [self._update(part) for part in record.parts], self._state.rounds
        squared_norm = ps_pb2.PushRequest.Header.FromString(record.parts[0].header).squared_norm
        skipped = self._state.step(updates, self._positions.skip(record.lsn), squared_norm)
        rounds.sum = (rounds.version, squared_norm) if squared_norm else rounds.sum
        rounds.version += 1
        for update in updates:
            self._state.stats.pushed(update, 0, skipped if update is updates[0] else 0)

    def _update(self, part: RecordPart) -> PushedUpdate:
        header = ps_pb2.PushRequest.Header.FromString(part.header)
        held = self._state.held
        update = update_of(header, read_push(held.reader, header, part.tensors, held.job))
        self._state.ledger.take(update.worker, update.sequence)
        return update

    def _assign(self, record: JournalRecord) -> None:
        header = ps_pb2.AssignRequest.Header.FromString(record.parts[0].header)
        rows = read_assigned(header, record.parts[0].tensors, self._state.held.job)
        self._state.ledger.take(header.caller.worker, header.sequence)
        self._state.assign(rows, self._positions.skip(record.lsn))

    def _leave(self, record: JournalRecord) -> None:
        header = ps_pb2.LeaveRequest.Header.FromString(record.parts[0].header)
        self._state.leave(header.caller.worker, is_unfinished=header.is_unfinished, is_absent=header.is_absent)

    def _load(self, record: JournalRecord) -> None:
        """Its snapshot was not finished, so nobody was told of the load, and it will be asked for again."""

    def _shrink(self, record: JournalRecord) -> None:
        asked = ps_pb2.ShrinkRequest.Header.FromString(record.parts[0].header)
        with suppress(UsageError):  # its caller was told so then
            self._state.shrink(asked, self._positions.skip(record.lsn))

    def _meet(self, record: JournalRecord) -> None:
        header = ps_pb2.MeetRequest.Header.FromString(record.parts[0].header)
        self._state.meetings.come(header.name, header.caller.worker, header.text)

    def _take(self, record: JournalRecord) -> None:
        header = ps_pb2.TakeRequest.Header.FromString(record.parts[0].header)
        self._state.pieces.change(*read_take(header))

    def _adopt(self, record: JournalRecord) -> None:
        adopt(self._state, record.parts)


def adopt(state: ServerState, parts: Sequence[RecordPart]) -> None:
    """Take over what the servers of the layout before knew; the rows that they had written before are there."""
    holdings, head = state.held, json.loads(parts[0].header)
    state.adopt(head["state"])
    if head["is_started"]:
        _restore_dense(holdings, RecordPart(parts[0].header, parts[1].tensors))
    if head["is_spoiled"]:
        for table in holdings.tables:
            table.clear()
    for part in parts[2:]:
        index, _, rows = exported(part)
        holdings.tables[index].import_(rows, holdings.server, holdings.job.num_servers)


def state_part(state: ServerState) -> RecordPart:
    """The part of a snapshot with all that is small: everything but values and rows."""
    return RecordPart(json.dumps(state.to_json()).encode())


def dense_part(holdings: Holdings) -> RecordPart:
    """The dense parameters with the state of their rules, and the kept tensors."""
    buffers = [array for both in holdings.snapshot() for array in both]
    return RecordPart(json.dumps({"is_started": holdings.is_started}).encode(), [*buffers, *holdings.kept])


def rows_part(
    table: int, shards: tuple[int, int], rows: dict[str, Any], files: Sequence[ShardFiles] = ()
) -> RecordPart:
    """The rows of some shards of a table; `files` that hold more of them lie beside the snapshot."""
    columns = [(name, array.dtype.str, array.shape) for name, array in rows.items()]
    header = {"table": table, "shards": shards, "columns": columns, **({"files": files} if files else {})}
    return RecordPart(json.dumps(header).encode(), [np.ascontiguousarray(array) for array in rows.values()])


def restore(state: ServerState, path: Path, device: str) -> tuple[int, Positions]:
    """Fill a state from a snapshot; the record that it begins at, and what its tables have beyond."""
    records = read_snapshot(path)
    first, dense = next(records, None), next(records, None)
    if first is None or dense is None or (first.kind, dense.kind) != (Kind.STATE, Kind.DENSE):
        raise JournalError(f"{path} is no snapshot that this version can read; begin anew from a checkpoint")
    holdings = state.restore(json.loads(first.parts[0].header), device)
    _restore_dense(holdings, dense.parts[0])
    positions = [[first.lsn] * _native.Table.num_shards for _ in holdings.tables]
    with ThreadPoolExecutor(min(4, num_cores()), "fleet-restore") as pool:
        for begin, end, table, lsn in pool.map(lambda record: _restore_rows(holdings, record, path), records):
            positions[table][begin:end] = [lsn] * (end - begin)
    return first.lsn, Positions(positions)


def _restore_dense(holdings: Holdings, part: RecordPart) -> None:
    if not json.loads(part.header)["is_started"]:
        return
    num_buffers = 2 * len(holdings.groups)
    arrays = [_array(tensor, np.dtype(np.float32)) for tensor in part.tensors[:num_buffers]]
    kept = read_kept(part.tensors[num_buffers:], holdings.job, holdings.server, "kept")
    holdings.restore(list(zip(arrays[::2], arrays[1::2], strict=True)), kept)


def exported(part: RecordPart) -> tuple[int, tuple[int, int], dict[str, Any]]:
    """The table, its shards and their rows, as given to `rows_part`."""
    header = json.loads(part.header)
    rows = {
        name: _array(tensor, np.dtype(kind)).reshape(shape)
        for (name, kind, shape), tensor in zip(header["columns"], part.tensors, strict=True)
    }
    begin, end = header["shards"]
    return int(header["table"]), (begin, end), rows


def _array(tensor: Any, kind: np.dtype[Any]) -> Any:
    return tensor.reshape(-1) if isinstance(tensor, np.ndarray) else np.frombuffer(tensor, kind)


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
