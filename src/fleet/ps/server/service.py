"""What a server does, without any network: tables, dense parameters, steps. One instance is one server.

A service knows no model. The first worker that declares the job makes the tables; every other declaration must agree
with it. Pulls and pushes are `pushes`; whatever changes the state is in its journal, if it has one, before anybody is
told (`durability`).
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet import env
from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet.jobfiles.layouts import own_layouts
from fleet.observe.metrics import events
from fleet.ps.durable import storage
from fleet.ps.durable.arriving import Arriving
from fleet.ps.durable.cut import Cuts
from fleet.ps.durable.durability import Durability
from fleet.ps.durable.moving import Moving, is_moved_on
from fleet.ps.durable.saves import SaveMoment, Saves
from fleet.ps.held.assigning import Assigning
from fleet.ps.held.deleted_keys import DeletedKeyFiles
from fleet.ps.held.holdings import Holdings, make_holdings
from fleet.ps.held.requests import read_dense, read_kept
from fleet.ps.job.spec import JobSpec, difference
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.journal.writer import Policy
from fleet.ps.meetings.meet_calls import MeetCalls
from fleet.ps.meetings.pieces import read_take
from fleet.ps.proto import ps_pb2
from fleet.ps.server.absent_workers import AbsentWorkers
from fleet.ps.server.board import BoardNotes
from fleet.ps.server.pushes import Pushes
from fleet.ps.server.settling import Settling
from fleet.ps.steps.core import EVERYBODY, Core
from fleet.ps.steps.missing_workers import awaited_by_all

if TYPE_CHECKING:
    import numpy as np
    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from fleet.ps.wire.messages import Tensors

Answered = tuple["Message", "Tensors"]
Opening = Callable[[JobSpec, int], "Sequence[NDArray[np.float32]] | None"]
"""Asked when the first worker declares a job, with the server's index: the first values of the dense groups, if any."""


class Service:
    """One server. `handle` is called from many threads."""

    def __init__(
        self,
        device: str = "cpu",
        model_dir: str | Path | None = None,
        opening: Opening | None = None,
        journal: tuple[Path, Policy] | None = None,
    ) -> None:
        """`journal`: the folder in which this server outlives its process; what it holds is taken up."""
        self.finished = threading.Event()
        """Set while no worker is left; one that has left may come back for another life."""
        self._device = device
        self._opening = opening
        self._model_dir = None if model_dir is None else storage.checked_folder(model_dir)
        self.core = Core()
        self.state = self.core.state
        """What this server would lose if it died, and may not: see `fleet.ps.durable.durability`."""
        if journal is not None:
            self.core.durability = Durability(self.core, *journal, device)
            if self.state.holdings is not None and self.state.rounds.is_deserted:
                self.finished.set()
            layouts = own_layouts()
            is_new = self.state.holdings is None and not env.FLEET_LIFE.get()
            if layouts is not None and layouts.folder.exists() and is_moved_on(layouts, is_new=is_new):
                self.core.move()
        self._agreed: tuple[Holdings, str] | None = None
        """What the last worker declared that agreed with the job, and what was made of it."""
        self.pushes = Pushes(self.core)
        self.attendance = MeetCalls(self.core)
        self._settling = Settling(self.core, self.pushes)
        self._notes = BoardNotes()
        self._absence = AbsentWorkers(self.core, self.pushes.apply_if_complete)
        self._absence.begin()
        self._saves = Saves(self.core.gate.closed)
        self._cuts = Cuts(self.core, self._saves)
        self._moving = Moving(self.core, self._saves, self._cuts)
        self._arriving = Arriving(self.core, device)
        self._methods: dict[str, Callable[[Any, Tensors], Answered]] = {
            "Declare": self._declare,
            "Start": self._start,
            "Keep": self._keep,
            "Pull": self.pushes.pull,
            "Push": self.pushes.push,
            "Assign": Assigning(self.core).answer,
            "Norm": self._settling.answer,
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
        }

    def handle(self, method: str, header: Message, tensors: Tensors) -> Answered:
        """Answer one call; see fleet.ps.wire.transport.Handler."""
        function = self._methods.get(method)
        if function is None:
            raise UsageError(f"there is no method {method!r}")
        return function(header, tensors)

    def close(self) -> None:
        """Let calls that wait end with an error, and the journal go; where every worker has left, it is removed."""
        self._moving.close()
        self.core.close()
        self._absence.close()
        self._cuts.close()
        if self.core.durability is not None:
            self.core.durability.close(is_finished=self.finished.is_set() or self.core.is_moved)

    # Declaration.

    def _declare(self, asked: ps_pb2.DeclareRequest.Header, _: Tensors) -> Answered:
        header = ps_pb2.DeclareRequest.Header()
        header.CopyFrom(asked)  # what the server gives is filled in
        caller, state = header.caller, self.state
        holdings = state.holdings
        # Thousands of workers say the same: only the first is read.
        is_known = holdings is not None and self._agreed == (holdings, header.job)
        job = holdings.job if holdings is not None and is_known else JobSpec.from_json(header.job)
        if caller.worker >= job.num_workers:
            raise UsageError(f"worker {caller.worker} does not exist in a job of {job.num_workers} workers")
        if header.server_index >= job.num_servers:
            raise UsageError(f"server {header.server_index} does not exist in a job of {job.num_servers} servers")
        if self.core.is_closed:
            raise CommunicationError("the server is stopping")
        self.core.refuse_moved()
        if state.holdings is None:
            self._begin(job, header)
        holdings = state.held
        self._check_declared(holdings, job, header)
        self._agreed = holdings, header.job
        with self.core.gate.closed, self.core.changed:
            if state.holdings is not holdings:  # another worker was told why
                raise NotReadyError("the server could not keep the checkpoint that it was to begin with; see its log")
            if header.life and not caller.incarnation:
                caller.incarnation = state.ledger.incarnation_of(caller.worker, header.life)
            if state.ledger.is_new(caller.worker, caller.incarnation):
                self.core.record(Kind.DECLARE, [RecordPart(header.SerializeToString())])
                state.absent_after_ms = header.absent_after_ms
                state.greet(caller.worker, caller.incarnation, header.life)
                self.finished.clear()
                self.core.tell(caller.worker)  # its former life may wait for a step
            steps, position = state.ledger.history(caller.worker)
            version, num_ended, passed = state.rounds.version, state.rounds.num_ended, list(state.rounds.passed)
        self._absence.begin()
        reply = ps_pb2.DeclareReply.Header(
            instance=state.instance,
            is_started=holdings.is_started,
            version=version,
            model_dir="" if self._model_dir is None else str(self._model_dir),
            incarnation=caller.incarnation,
            run=state.run,
            steps=steps,
            position=position,
            num_ended=num_ended,
            passed=passed,
            data_port=self.core.data_port,
        )
        return reply, ()

    def _check_declared(self, holdings: Holdings, job: JobSpec, header: ps_pb2.DeclareRequest.Header) -> None:
        """UsageError if a worker means another job, or another server."""
        worker = header.caller.worker
        if job is not holdings.job and (what := difference(job, holdings.job)) is not None:
            durability = self.core.durability
            folder = None if durability is None else durability.resumed_from
            kept = f"; {folder} holds that job: run its command again, or choose another --durable" if folder else ""
            raise UsageError(f"worker {worker} does not agree with the job: {what}{kept}")
        if header.server_index != holdings.server:
            raise UsageError(
                f"worker {worker} takes this server for server {header.server_index}, others for "
                f"server {holdings.server}; give every worker the same list of servers"
            )
        if header.run and self.state.run and header.run != self.state.run:
            raise UsageError(
                f"server {holdings.server} has the state of another run of the job than server 0: one of them began "
                "anew. Bring back the folder it had (--durable), or begin anew with all of them, from a checkpoint"
            )

    def _begin(self, job: JobSpec, header: ps_pb2.DeclareRequest.Header) -> None:
        """Make what the first worker declares."""
        if self._model_dir is not None:  # a snapshot has both what is declared and what is loaded, or nothing is there
            self._keep_loaded(lambda: self._make(job, header), self._unmake)
            return
        with self.core.gate.closed:
            self._make(job, header)

    def _unmake(self) -> None:
        """Under the closed gate: the journal has nothing of what was made, and must not go on from there."""
        with self.core.changed:
            self.state.holdings = None
            self.core.tell(EVERYBODY)

    def _make(self, job: JobSpec, header: ps_pb2.DeclareRequest.Header) -> None:
        """Under the closed gate."""
        with self.core.changed:
            if self.state.holdings is not None:
                return
            holdings = make_holdings(job, header.server_index, self._device)
            values = None if self._opening is None else self._opening(job, header.server_index)
            run = header.run or secrets.randbits(63) + 1
            if self._model_dir is not None:
                loaded = storage.load(holdings, self._model_dir)
                self.state.begin(holdings, run)
                self.state.loaded(loaded.version)
                return
            first = ps_pb2.DeclareRequest.Header(job=header.job, server_index=header.server_index, run=run)
            self.core.record(Kind.DECLARE, [RecordPart(first.SerializeToString())])
            self.state.begin(holdings, run)
            if values is not None:
                self.core.record(Kind.START, [RecordPart(b"", values)])
                holdings.start(values)

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

    # State.

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

        self._keep_loaded(load)
        return ps_pb2.LoadReply.Header(rows=found[0].rows, version=found[0].version), ()

    def _keep_loaded(self, load: Callable[[], None], undo: Callable[[], None] | None = None) -> None:
        """Load a checkpoint while nothing else happens, and let the journal have it."""
        if self.core.durability is not None:
            self.core.durability.load(load, undo)
            return
        with self.core.gate.closed:
            load()

    def _meet(self, header: ps_pb2.MeetRequest.Header, _: Tensors) -> Answered:
        return self.attendance.meet(header), ()

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

    def _board(self, header: ps_pb2.BoardRequest.Header, _: Tensors) -> Answered:
        self.core.refuse_moved()
        return self._notes.answer(header), ()
