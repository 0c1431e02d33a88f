"""Rows on their way to other servers: the side of the servers that hold them (docs/adr/0021-reshard.md).

While training goes on the server writes its rows into a folder, some shards at a time, and notes the keys of pushes
from then on. Then new pushes wait at the door, as for a cut; when all servers have the same ones, the gate closes, and
the rows of those keys follow, with everything else that the server knows. The gate opens when a file says which layout
holds: this one, and training goes on as if nothing had been, or the next, and every call is answered by "moved".
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fleet import _native
from fleet.checkpoint import among, only
from fleet.errors import CommunicationError, FleetError, UsageError
from fleet.jobfiles.layouts import Layouts, own_layout, own_layouts
from fleet.observe.waits.waiting import workers_text
from fleet.ps.durable.cut import Cuts
from fleet.ps.durable.durability import portions
from fleet.ps.durable.saves import Saves
from fleet.ps.held.holdings import Holdings
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.journal.snapshots import SnapshotWriter
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.parts import dense_part, rows_part, state_part
from fleet.ps.wire import callers
from fleet.ps.wire.taken_pushes import TakenPushes, born_since, still_missing, wanted_of

if TYPE_CHECKING:
    from fleet.ps.steps.core import Core

SILENCE_S = 30.0
"""How long a server waits for the next call of worker 0, which leads the move."""
_GATE_S = 5.0
_LOOK_S = 0.5

Phase = ps_pb2.ReshardRequest.Phase
Reply = ps_pb2.ReshardReply.Header

_log = logging.getLogger(__name__)


class _Departure:
    """One move of all that a server holds."""

    def __init__(self, number: int, folder: Path, watchers: Sequence[int]) -> None:
        self.number = number
        self.folder = folder
        self.watchers = watchers
        """Who notes in each table which rows change from now on."""
        self.is_spoiled = False
        """Whether rows were deleted or replaced meanwhile: then what was copied is worthless."""
        self.heard_at = time.monotonic()
        self.is_copied = self.is_frozen = self.is_written = self.is_over = False
        self.rows = 0
        self.failure = ""
        self.thread: threading.Thread | None = None


class Moving:
    """The moves of one server, one at a time."""

    def __init__(self, core: Core, saves: Saves, cuts: Cuts) -> None:
        self._core = core
        self._saves = saves
        self._cuts = cuts
        self._changed = threading.Condition()
        """Acquired before the gate."""
        self._this: _Departure | None = None
        self._lost = (0, "")
        core.door.entered.append(self._notice)

    def answer(self, header: ps_pb2.ReshardRequest.Header) -> Reply:
        """Answer a call of `Reshard` about rows that leave this server."""
        holdings = self._core.known(header.caller)
        if header.phase == Phase.COPY:
            return self._copy(holdings, header)
        with self._changed:
            this = self._this
        if this is None or this.number != header.layout:
            return Reply(lost=self._why_lost(header.layout))
        this.heard_at = time.monotonic()
        if header.phase == Phase.HOLD:
            return self._hold(this)
        if header.phase == Phase.TAKE:
            return self._take(this, holdings, header)
        self._look(this)
        return Reply(is_done=True)

    def spoil(self) -> None:
        """Rows were deleted or replaced: a copy of them is worthless. Called under the closed gate."""
        if self._this is not None:
            self._this.is_spoiled = True

    def close(self) -> None:
        """The server stops: a move that is not decided is given up."""
        with self._changed:
            this = self._this
        if this is not None:
            self._give_up(this, "a server was stopped")
            if this.thread is not None:
                this.thread.join()

    def _copy(self, holdings: Holdings, header: ps_pb2.ReshardRequest.Header) -> Reply:
        layouts, core = own_layouts(), self._core
        if layouts is None or core.durability is None:
            raise UsageError(
                "rows move in durable jobs alone, whose servers keep a journal; start it with --durable DIR"
            )
        with self._changed:
            this = self._this
            if this is None and layouts.undecided == header.layout:
                with core.gate.closed:
                    watchers = [table.watch() for table in holdings.tables]
                    this = self._this = _Departure(header.layout, layouts.moving(header.layout), watchers)
                self._begin(this, lambda: self._write_rows(this, holdings))
                self._expect(this)
            if this is None or this.number != header.layout:
                return Reply(lost=self._why_lost(header.layout))
            this.heard_at = time.monotonic()
            callers.wait_for(
                self._changed, lambda: this.is_copied or bool(this.failure) or this.is_over, header.timeout_ms / 1000
            )
            if this.failure or this.is_over:
                return Reply(lost=this.failure or self._why_lost(header.layout))
            busy = "" if self._saves.unfinished is None else "a save is being written"
            return Reply(is_done=this.is_copied, rows=this.rows, busy=busy)

    def _hold(self, this: _Departure) -> Reply:
        core = self._core
        with self._cuts.changed, self._changed:
            if self._cuts.is_busy or self._saves.unfinished is not None:
                return Reply(busy="a save is being written")
            if this.is_over or not this.is_copied:
                return Reply(lost=self._why_lost(this.number))
            if this.is_frozen:  # a call that was sent twice: its answer is not needed any more
                return Reply(busy="this has been done")
            with core.gate.closed:
                taken = self._applied()
                if not core.door.is_shut:
                    core.door.shut(taken)
                    core.door.is_moving = True
            return Reply(is_done=True, taken=[one.message() for one in taken])

    def _take(self, this: _Departure, holdings: Holdings, header: ps_pb2.ReshardRequest.Header) -> Reply:
        wanted = wanted_of(header.taken, holdings.job.num_workers, "a move")

        def missing() -> list[int]:
            return still_missing(self._applied(), wanted)

        with self._changed:
            if this.is_over or this.failure:
                return Reply(lost=this.failure or self._why_lost(this.number))
            if not this.is_frozen:
                self._core.door.shut(wanted)
                callers.wait_for(self._changed, lambda: this.is_over or not missing(), header.timeout_ms / 1000)
                if this.is_over:
                    return Reply(lost=self._why_lost(this.number))
                if late := born_since(self._core.state.ledger.all_taken(), wanted):
                    return Reply(lost=f"{workers_text(late)} began a new life before all its pushes had come")
                if found := missing():
                    return Reply(missing=found)
                this.is_frozen = True
                self._begin(this, lambda: self._freeze(this, holdings))
            callers.wait_for(
                self._changed, lambda: this.is_written or bool(this.failure) or this.is_over, header.timeout_ms / 1000
            )
            if lost := self._lost_now(this):
                return Reply(lost=lost)
            return Reply(is_done=this.is_written, rows=this.rows)

    def _begin(self, this: _Departure, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except (OSError, FleetError) as error:
                this.failure = f"server {self._core.state.held.server}: {error}"
            except Exception as error:  # of any kind: worker 0 must learn of it
                this.failure = f"server {self._core.state.held.server}: {error!r}"
            with self._changed:
                if this.thread is threading.current_thread():
                    this.thread = None
                self._changed.notify_all()

        this.thread = threading.Thread(target=run, name="fleet-move", daemon=True)
        this.thread.start()

    def _write_rows(self, this: _Departure, holdings: Holdings) -> None:
        """Write all rows, some at a time, but for tables with a ceiling, where a push may delete other rows."""
        core, rows = self._core, 0
        with _writer(this.folder / f"rows-{holdings.server}") as writer:
            for index, spec in enumerate(holdings.job.tables):
                for shards in () if spec.max_bytes else portions(holdings, index):
                    if this.is_over:
                        return
                    with core.gate.closed:
                        found = holdings.tables[index].export(*shards)
                    rows += len(found["keys"])
                    writer.write(Kind.ROWS, 1, [rows_part(index, shards, found)])
            writer.finish()
        this.rows, this.is_copied = rows, True

    def _freeze(self, this: _Departure, holdings: Holdings) -> None:
        """Write what is left, and let nobody in until it is decided which layout holds."""
        core = self._core
        core.gate.patience_s = _GATE_S
        try:
            with core.gate.closed:
                self._write_rest(this, holdings)
                with self._changed:
                    this.is_written = True
                    self._changed.notify_all()
                    while not this.is_over:
                        self._changed.wait()
        finally:
            core.gate.patience_s = None

    def _write_rest(self, this: _Departure, holdings: Holdings) -> None:
        found_keys = [table.touched(one, True) for table, one in zip(holdings.tables, this.watchers, strict=True)]
        is_spoiled = this.is_spoiled or any(is_all for _, is_all in found_keys)
        rows, num_shards = 0, _native.Table.num_shards
        with _writer(this.folder / f"rest-{holdings.server}") as writer:
            writer.write(Kind.STATE, 1, [RecordPart(json.dumps({"is_spoiled": is_spoiled}).encode())])
            writer.write(Kind.STATE, 1, [state_part(self._core.state)])
            writer.write(Kind.DENSE, 1, [dense_part(holdings)])
            for index, spec in enumerate(holdings.job.tables):
                keys = np.sort(found_keys[index][0])
                if not (is_spoiled or spec.max_bytes or len(keys)):
                    continue
                for shards in portions(holdings, index):
                    found = holdings.tables[index].export(*shards)
                    if not (is_spoiled or spec.max_bytes):
                        found = only(found, lambda own, keys=keys: among(own, keys))  # type: ignore[misc]
                    rows += len(found["keys"])
                    writer.write(Kind.ROWS, 1, [rows_part(index, (0, num_shards), found)])
            writer.finish()
        this.rows = rows

    def _look(self, this: _Departure) -> None:
        """See whether it is decided which layout holds."""
        layouts = own_layouts()
        decided = None if layouts is None else layouts.decided(this.number)
        if decided is None:
            return
        with self._changed:
            if this.is_over:
                return
            for table, watcher in zip(self._core.state.held.tables, this.watchers, strict=True):
                table.unwatch(watcher)
            if decided.endpoints:
                self._core.move()
            else:
                self._lost = this.number, decided.abandoned
                _log.warning("the servers stay as they are: %s", decided.abandoned)
            this.is_over, self._this = True, None
            self._core.door.is_moving = False
            self._core.door.open()
            self._changed.notify_all()

    def _give_up(self, this: _Departure, why: str) -> None:
        layouts = own_layouts()
        if layouts is not None:
            layouts.decide(this.number, abandoned=why)
        self._look(this)

    def _expect(self, this: _Departure) -> None:
        """Give the move up if worker 0 says nothing for a while."""

        def watch() -> None:
            while self._this is this:
                time.sleep(_LOOK_S)
                self._look(this)
                if self._this is this and time.monotonic() > this.heard_at + SILENCE_S:
                    self._give_up(this, f"worker 0 has said nothing for {SILENCE_S:g} s")

        threading.Thread(target=watch, name="fleet-move-watch", daemon=True).start()

    def _notice(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _applied(self) -> list[TakenPushes]:
        """The pushes that were applied: others, of a step that is not complete, are sent again."""
        found = (
            self._core.state.ledger.all_taken()
        )  # first: who makes a change has a lock of the ledger, and then wants this one
        with self._core.changed:
            pending = self._core.state.rounds.pending()
        return [one.without(pending.get(worker, 0)) for worker, one in enumerate(found)]

    def _lost_now(self, this: _Departure) -> str:
        if this.is_over and not this.is_written:
            return self._why_lost(this.number)
        return this.failure

    def _why_lost(self, number: int) -> str:
        lost, why = self._lost
        return why if lost == number and why else "a server was started again"


def is_moved_on(layouts: Layouts, *, is_new: bool) -> bool:
    """Whether the layout of a server that starts is a past one.

    A move that is not decided is given up: a server that was away has let in what the others hold up. `is_new`: this
    server belongs to the next layout and has nothing yet.
    """
    undecided = layouts.undecided
    if undecided is not None and not (is_new and undecided == own_layout()):
        layouts.decide(undecided, abandoned="a server was started again meanwhile")
    return layouts.later(own_layout()) is not None


def _writer(folder: Path) -> SnapshotWriter:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return SnapshotWriter(folder, 1)
    except OSError as error:
        raise CommunicationError(f"rows cannot be written into {folder}: {error.strerror or error}") from None
