"""What a server does, without any network: tables, dense parameters, steps. One instance is one server.

A service knows no model. The first worker that declares the job makes the tables; every other declaration must agree
with it. Pulls and pushes are `pushes`; whatever changes the state is in its journal, if it has one, before anybody is
told (`durability`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet import env
from fleet.errors import UsageError
from fleet.jobfiles.layouts import own_layouts
from fleet.observe.metrics import events
from fleet.ps.durable import storage
from fleet.ps.durable.arriving import Arriving
from fleet.ps.durable.cut import Cuts
from fleet.ps.durable.durability import Durability
from fleet.ps.durable.moving import Moving, is_moved_on
from fleet.ps.durable.saves import SaveMoment, Saves
from fleet.ps.held.assigning import Assigning
from fleet.ps.held.changed_keys import DeletedKeyFiles
from fleet.ps.held.requests import read_dense, read_kept
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.journal.writer import Policy
from fleet.ps.meetings.meet_calls import MeetCalls
from fleet.ps.meetings.pieces import read_take
from fleet.ps.proto import ps_pb2
from fleet.ps.server.absent_workers import AbsentWorkers
from fleet.ps.server.board import BoardNotes
from fleet.ps.server.clipping import StepClipping
from fleet.ps.server.declaring import Declaring, Opening
from fleet.ps.server.pushes import Pushes
from fleet.ps.standby.standby import Standby
from fleet.ps.standby.standing import Part, Standing
from fleet.ps.steps.core import EVERYBODY, Core
from fleet.ps.steps.missing_workers import awaited_by_all

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.steps.state import ServerState
    from fleet.ps.wire.messages import Tensors

Answered = tuple["Message", "Tensors"]


class Service:
    """One server. `handle` is called from many threads."""

    def __init__(
        self,
        device: str = "cpu",
        model_dir: str | Path | None = None,
        opening: Opening | None = None,
        journal: tuple[Path, Policy] | None = None,
        standing: Standing | None = None,
    ) -> None:
        """`journal`: the folder in which this server outlives its process; what it holds is taken up.

        `standing`: what it is in a job whose servers have copies.
        """
        self.finished = threading.Event()
        """Set while no worker is left; one that has left may come back for another life."""
        folder = None if model_dir is None else storage.checked_folder(model_dir)
        self.core = Core()
        self.core.is_copy = standing is not None and standing.part is Part.COPY
        if journal is not None:
            self.core.durability = Durability(self.core, *journal, device)
            if self._is_deserted:
                self.finished.set()
            layouts = own_layouts()
            is_new = self.state.holdings is None and not env.FLEET_LIFE.get()
            if layouts is not None and layouts.folder.exists() and is_moved_on(layouts, is_new=is_new):
                self.core.move()
        self._declaring = Declaring(self.core, self.finished, device, folder, opening)
        self.pushes = Pushes(self.core)
        self.meet_calls = MeetCalls(self.core)
        self._clipping = StepClipping(self.core, self.pushes)
        self._notes = BoardNotes()
        self._absent_workers = AbsentWorkers(self.core, self.pushes.apply_if_complete)
        self._absent_workers.begin()
        self._saves = Saves(self.core.gate.closed)
        self._cuts = Cuts(self.core, self._saves)
        self._moving = Moving(self.core, self._saves, self._cuts)
        self._arriving = Arriving(self.core, device)
        self.standby: Standby | None = None
        if standing is not None and self.core.durability is not None:
            begin = self._absent_workers.begin
            self.standby = Standby(self.core, self.core.durability, standing, device, begin)
        self._methods: dict[str, Callable[[Any, Tensors], Answered]] = {
            "Declare": self._declare,
            "Start": self._start,
            "Keep": self._keep,
            "Pull": self.pushes.pull,
            "Push": self.pushes.push,
            "Assign": Assigning(self.core).answer,
            "Norm": self._clipping.answer,
            "Leave": self._leave,
            "Save": self._save,
            "Cut": self._cuts.answer,
            "Reshard": self._reshard,
            "Load": self._load,
            "Meet": self._meet,
            "Take": self._take,
            "Shrink": self._shrink,
            "Stats": self._report,
            "Board": self._board,
            "Follow": self._follow,
        }

    def handle(self, method: str, header: Message, tensors: Tensors) -> Answered:
        """Answer one call; see fleet.ps.wire.transport.Handler."""
        function = self._methods.get(method)
        if function is None:
            raise UsageError(f"there is no method {method!r}")
        self.core.admit(header.caller.term)  # type: ignore[attr-defined]  # every request says who calls
        return function(header, tensors)

    @property
    def state(self) -> ServerState:
        """What this server would lose if it died, and may not: see `fleet.ps.durable.durability`."""
        return self.core.state

    def close(self) -> None:
        """Let calls that wait end with an error, and the journal go; where every worker has left, it is removed."""
        self._moving.close()
        self.core.close()
        if self.standby is not None:
            self.standby.close()
        self._absent_workers.close()
        self._cuts.close()
        if self.core.durability is not None:
            is_over = self.finished.is_set() or self.core.is_moved or (self.core.is_copy and self._is_deserted)
            self.core.durability.close(is_finished=is_over)

    @property
    def _is_deserted(self) -> bool:
        return self.state.holdings is not None and self.state.rounds.is_deserted

    def _declare(self, header: ps_pb2.DeclareRequest.Header, _: Tensors) -> Answered:
        reply = self._declaring.answer(header)
        self._absent_workers.begin()
        return reply, ()

    def _start(self, header: ps_pb2.StartRequest.Header, tensors: Tensors) -> Answered:
        core, holdings = self.core, self.core.known(header.caller)
        job, server, num_groups = holdings.job, holdings.server, len(holdings.groups)
        values = read_dense(tensors[:num_groups], job, server, "first values")
        kept = read_kept(tensors[num_groups:], job, server, "first values")
        with core.gate.open(), core.changed:
            if not holdings.is_started:
                core.record(Kind.START, [RecordPart(b"", tensors)])
                holdings.start(values, kept)
                core.tell()
        return ps_pb2.StartReply.Header(), ()

    def _keep(self, header: ps_pb2.KeepRequest.Header, tensors: Tensors) -> Answered:
        core, holdings = self.core, self.core.known(header.caller)
        kept = read_kept(tensors, holdings.job, holdings.server, f"worker {header.caller.worker}")
        with core.gate.open(), core.changed:
            core.record(Kind.KEEP, [RecordPart(b"", tensors)])
            holdings.keep(kept)
        return ps_pb2.KeepReply.Header(), ()

    def _leave(self, header: ps_pb2.LeaveRequest.Header, _: Tensors) -> Answered:
        core, holdings = self.core, self.core.known(header.caller)
        while holdings.job.mode == "sync" and core.door.is_shut and not core.door.wait_open():
            core.known(header.caller)  # a step may be complete without it, and must not be on one server alone
        with core.gate.open():
            self.state.ledger.check(header.caller.worker, header.caller.incarnation)  # its next life may have come
            with core.changed:
                core.record(Kind.LEAVE, [RecordPart(header.SerializeToString())])
                self.state.leave(header.caller.worker, is_unfinished=header.is_unfinished)
                core.tell(EVERYBODY)  # whoever waits for one that is unfinished waits in vain
                is_last = self.state.rounds.is_deserted
            if holdings.job.mode == "sync":
                self.pushes.apply_if_complete()
        if is_last:
            self.finished.set()
        return ps_pb2.LeaveReply.Header(), ()

    def _save(self, header: ps_pb2.SaveRequest.Header, _: Tensors) -> Answered:
        holdings = self.core.known(header.caller)
        if header.cut:
            return self._cuts.save(holdings, header), ()
        return self._saves.save(holdings, header, lambda: SaveMoment.of(self.state)), ()

    def _load(self, header: ps_pb2.LoadRequest.Header, _: Tensors) -> Answered:
        holdings = self.core.known(header.caller)
        if header.check_only:
            return ps_pb2.LoadReply.Header(version=storage.check(holdings, Path(header.folder))), ()
        self._cuts.forget("a checkpoint was loaded meanwhile")
        found: list[storage.Loaded] = []

        def load() -> None:
            known = self.state.loads.get(header.load)
            if known is not None and self.core.failure is None:
                found.append(storage.Loaded(*known))
                return
            try:
                found.append(storage.load(holdings, Path(header.folder)))
            except storage.HalfLoadedError as error:
                with self.core.changed:
                    self.core.failure = str(error)
                raise
            with self.core.changed:
                self.core.failure = None
                self.state.loaded(found[0].version, header.load, found[0].rows)
                self.core.tell(EVERYBODY)
            self._moving.spoil()

        self.core.load(load)
        return ps_pb2.LoadReply.Header(rows=found[0].rows, version=found[0].version), ()

    def _meet(self, header: ps_pb2.MeetRequest.Header, _: Tensors) -> Answered:
        return self.meet_calls.meet(header), ()

    def _take(self, header: ps_pb2.TakeRequest.Header, _: Tensors) -> Answered:
        core, caller, pieces = self.core, header.caller, self.state.pieces
        if (server := core.known(caller).server) != 0:
            raise UsageError(f"server 0 hands out pieces, and this is server {server}")
        asked = read_take(header)
        with core.gate.open(), pieces.lock:
            self.state.ledger.check(caller.worker, caller.incarnation)  # its next life may have come
            if not pieces.changes(*asked):
                return ps_pb2.TakeReply.Header(pieces=pieces.answer(*asked)), ()
            core.record(Kind.TAKE, [RecordPart(header.SerializeToString())])
            return ps_pb2.TakeReply.Header(pieces=pieces.change(*asked)), ()

    def _reshard(self, header: ps_pb2.ReshardRequest.Header, _: Tensors) -> Answered:
        if header.phase in (ps_pb2.ReshardRequest.FILL, ps_pb2.ReshardRequest.ADOPT):
            return self._arriving.answer(header), ()
        return self._moving.answer(header), ()

    def _shrink(self, header: ps_pb2.ShrinkRequest.Header, _: Tensors) -> Answered:
        core = self.core
        core.known(header.caller)
        while True:
            while not core.door.wait_open():
                core.known(header.caller)
            with core.gate.closed:
                if core.door.is_shut:  # a cut has begun since, and must find all servers as they are
                    continue
                asked = ps_pb2.ShrinkRequest.Header()
                asked.CopyFrom(header)
                asked.keys_to = ""  # is written once
                self.state.put_in_steps(asked)
                listing = DeletedKeyFiles(header.keys_to, self.state.held.server) if header.keys_to else None
                core.record(Kind.SHRINK, [RecordPart(asked.SerializeToString())])
                deleted, rows = self.state.shrink(asked, listing=listing)
                self.state.stats.shrunk_rows += deleted
                events.note("shrink", f"{deleted} rows deleted, {rows} left")
                self._moving.spoil()
            return ps_pb2.ShrinkReply.Header(deleted=deleted, rows=rows), ()

    def _report(self, header: ps_pb2.StatsRequest.Header, _: Tensors) -> Answered:
        holdings = self.core.known(header.caller)
        with self.core.changed:
            awaited = awaited_by_all(holdings, self.state.rounds)
        durability = self.core.durability
        journal = {} if durability is None else {"journal": durability.counts()}
        stats = self.state.stats.to_json(holdings, self.state.rounds.version, **journal)
        return ps_pb2.StatsReply.Header(stats=stats, awaited=awaited.what, missing=awaited.workers), ()

    def _follow(self, header: ps_pb2.FollowRequest.Header, tensors: Tensors) -> Answered:
        if self.standby is None:
            raise UsageError("the servers of this job have no copies; start it by fleetrun --standby")
        return self.standby.answer(header, tensors)

    def _board(self, header: ps_pb2.BoardRequest.Header, _: Tensors) -> Answered:
        self.core.refuse_moved()
        return self._notes.answer(header), ()
