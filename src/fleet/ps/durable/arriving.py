"""Rows that come from other servers: the side of the servers of the next layout (docs/adr/0021-reshard.md).

A server that was started for a new layout has nothing. It reads the rows that the servers of the old layout wrote while
training went on, and keeps them as a snapshot. What those servers write when all pushes are held follows as one record
of its journal; from then on it can take their place, and does when a file says so.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fleet import _native
from fleet.checkpoint import BlockData, only
from fleet.errors import CommunicationError, FleetError, UsageError
from fleet.jobfiles.layouts import own_layout, own_layouts
from fleet.ps.durable import storage
from fleet.ps.durable.durability import SNAPSHOT_BYTES
from fleet.ps.held.holdings import Holdings, make_holdings
from fleet.ps.held.requests import read_kept
from fleet.ps.job.spec import JobSpec
from fleet.ps.journal.records import JournalError, JournalRecord, Kind, RecordPart
from fleet.ps.journal.snapshots import newest_snapshot, read_snapshot
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.core import EVERYBODY, Core
from fleet.ps.steps.parts import adopt, exported, rows_part
from fleet.ps.wire import callers

Phase = ps_pb2.ReshardRequest.Phase
Reply = ps_pb2.ReshardReply.Header

_log = logging.getLogger(__name__)


class _Place(NamedTuple):
    """A server of the layout before."""

    job: JobSpec
    server: int


class Arriving:
    """What a server without a job takes over from others."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._own = own_layout()
        self._changed = threading.Condition()
        self._layout = 0
        self._done: set[int] = set()
        self._failure = ""
        self._thread: threading.Thread | None = None

    def answer(self, header: ps_pb2.ReshardRequest.Header) -> Reply:
        """Answer a call of `Reshard` about rows that arrive."""
        layouts = own_layouts()
        if layouts is None or self._core.durability is None or header.layout != self._own:
            raise UsageError(f"this server was not started for layout {header.layout}")
        folder = layouts.moving(header.layout)
        with self._changed:
            if header.phase == Phase.FILL and self._layout != header.layout:
                if self._core.state.holdings is not None:
                    return Reply(lost="a server was started again")
                job = JobSpec.from_json(header.job)
                self._layout = header.layout
                self._begin(Phase.FILL, lambda: self._fill(job, header.server_index, header.num_sources, folder))
            if self._layout != header.layout:
                return Reply(lost="a server was started again")
            if header.phase == Phase.ADOPT and Phase.ADOPT not in self._done and self._thread is None:
                self._begin(Phase.ADOPT, lambda: self._adopt(header.num_sources, folder))
            phase = int(header.phase)
            callers.wait_for(
                self._changed, lambda: phase in self._done or bool(self._failure), header.timeout_ms / 1000
            )
            return Reply(is_done=phase in self._done, lost=self._failure)

    def _begin(self, phase: int, work: Callable[[], None]) -> None:
        def run() -> None:
            failure = ""
            try:
                work()
            except (OSError, FleetError) as error:
                failure = str(error) or repr(error)
            except Exception as error:  # of any kind: worker 0 must learn of it
                failure = repr(error)
            with self._changed:
                self._failure = failure
                if not failure:
                    self._done.add(phase)
                self._thread = None
                self._changed.notify_all()

        self._thread = threading.Thread(target=run, name="fleet-arrive", daemon=True)
        self._thread.start()

    def _fill(self, job: JobSpec, server: int, num_sources: int, folder: Path) -> None:
        """Take the rows that were written while training went on."""
        core, began_at = self._core, time.monotonic()
        holdings = make_holdings(job, server, core.state.device)
        for source in range(num_sources):
            for record in _records(folder / f"rows-{source}"):
                table, _, rows = exported(record.parts[0])
                holdings.tables[table].import_(rows, server, job.num_servers)

        def begin() -> None:
            core.state.begin(holdings, 0)

        with core.undisturbed():
            core.replace(begin)
        core.tell(EVERYBODY)
        num_rows = sum(map(len, holdings.tables))
        _log.info("took %d rows of %d servers in %.2f s", num_rows, num_sources, time.monotonic() - began_at)

    def _adopt(self, num_sources: int, folder: Path) -> None:
        """Take what is left, and everything else: from now on this server can take the place of those before."""
        core, began_at = self._core, time.monotonic()
        holdings = core.state.held
        sources = [list(_records(folder / f"rest-{source}")) for source in range(num_sources)]
        states = [json.loads(records[1].parts[0].header) for records in sources]
        versions = {int(state["rounds"]["version"]) for state in states}
        if holdings.job.mode == "sync" and len(versions) > 1:  # a worker has left some servers, but not yet the others
            raise CommunicationError(f"the servers were at different steps: {sorted(versions)}")
        spoiled = [bool(json.loads(records[0].parts[0].header)["is_spoiled"]) for records in sources]
        places = [_Place(JobSpec.from_json(state["job"]), int(state["server"])) for state in states]
        head = {
            "state": _merged(states),
            "is_spoiled": any(spoiled),
            "is_started": all(s["is_started"] for s in states),
        }
        parts = [RecordPart(json.dumps(head).encode()), _dense(holdings, places, [records[2] for records in sources])]
        for source, records in enumerate(sources):
            # Where rows of one source were deleted, all that came before goes: what another had written counts still.
            again = _records(folder / f"rows-{source}") if any(spoiled) and not spoiled[source] else []
            for record in [*again, *records[3:]]:
                table, shards, rows = exported(record.parts[0])
                parts.append(rows_part(table, shards, only(rows, self._is_own)))
        num_bytes = sum(np.asarray(tensor).nbytes for part in parts for tensor in part.tensors)
        if num_bytes < SNAPSHOT_BYTES // 4:
            with core.alone():
                core.change(Kind.ADOPT, parts)
        else:
            with core.undisturbed():
                core.replace(lambda: adopt(core.state, parts))
        core.tell(EVERYBODY)
        took_s = time.monotonic() - began_at
        _log.info("took the rest, %d KB, at version %d in %.2f s", num_bytes >> 10, core.state.rounds.version, took_s)

    def _is_own(self, keys: Any) -> Any:
        holdings = self._core.state.held
        return _native.server_of(keys, holdings.job.num_servers) == holdings.server


def _records(folder: Path) -> list[JournalRecord]:
    path = newest_snapshot(folder)
    if path is None:
        raise JournalError(f"there is nothing in {folder}, from where rows were to come")
    return list(read_snapshot(path))


def _merged(states: list[dict[str, Any]]) -> dict[str, Any]:
    """What server 0 knows, with the largest of the counts that each server keeps for itself."""
    merged = dict(states[0])
    merged["rounds"] = {**merged["rounds"], "version": max(int(state["rounds"]["version"]) for state in states)}
    clocks = [state["clock"] for state in states]
    merged["clock"] = {
        "now": max(int(clock["now"]) for clock in clocks),
        **{
            name: [max(each) for each in zip(*(clock[name] for clock in clocks), strict=True)]
            for name in ("begins", "steps")
        },
    }
    return merged


def _dense(holdings: Holdings, places: list[_Place], records: list[JournalRecord]) -> RecordPart:
    """This server's part of the dense parameters, with the state of their rules, and of the kept tensors."""
    found: list[BlockData] = []
    kept: dict[str, Any] = {}
    num_groups = len(holdings.groups)
    for place, record in zip(places, records, strict=True):
        arrays = [np.frombuffer(tensor, np.float32) for tensor in record.parts[0].tensors[: 2 * num_groups]]
        found += storage.blocks_of(place, list(zip(arrays[::2], arrays[1::2], strict=True)))
        own = record.parts[0].tensors[2 * num_groups :]
        if own:
            bits = read_kept(own, place.job, place.server, "kept")
            kept |= {spec.name: one for spec, one in zip(place.job.kept_on(place.server), bits, strict=True)}
    buffers = [array for both in storage.groups_of(holdings, found) for array in both]
    own_kept = [kept[spec.name] for spec in holdings.job.kept_on(holdings.server) if spec.name in kept]
    return RecordPart(b"", [*buffers, *own_kept])
