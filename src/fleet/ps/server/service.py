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

from fleet import checkpoint
from fleet.errors import UsageError
from fleet.jobfiles.layouts import own_layouts
from fleet.ps.durable.arriving import Arriving
from fleet.ps.durable.cut import Cuts
from fleet.ps.durable.durability import Durability
from fleet.ps.durable.moving import Moving, is_moved_on
from fleet.ps.durable.saves import SaveMoment, Saves
from fleet.ps.journal.writer import Policy
from fleet.ps.meetings.meet_calls import MeetCalls
from fleet.ps.proto import ps_pb2
from fleet.ps.publishing.publishing import Publishing
from fleet.ps.server.absent_workers import AbsentWorkers
from fleet.ps.server.board import BoardNotes
from fleet.ps.server.changing import Changing
from fleet.ps.server.clipping import StepClipping
from fleet.ps.server.declaring import Declaring, Opening
from fleet.ps.server.pushes import Pushes
from fleet.ps.server.roots import confine_request
from fleet.ps.standby.standby import Standby
from fleet.ps.standby.standing import Part, Standing
from fleet.ps.steps.core import Core
from fleet.ps.steps.missing_workers import awaited_by_all
from fleet.ps.wire.budget import MessageBudget

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
        folder = None if model_dir is None else checkpoint.find(model_dir)
        self.core = Core(device)
        self.core.is_copy = standing is not None and standing.part is Part.COPY
        self.budget = MessageBudget()
        """The room for messages to this server, by whatever way they come."""
        self.broken = self.core.is_torn
        """Set when this server must be started again: its journal has a change that it could not make."""
        if journal is not None:
            self.core.durability = Durability(self.core, *journal)
            if self._is_deserted:
                self.finished.set()
            layouts = own_layouts()
            is_new = self.state.holdings is None and not self.core.durability.life
            if layouts is not None and layouts.folder.exists() and is_moved_on(layouts, is_new=is_new):
                self.core.move()
        self._declaring = Declaring(self.core, self.finished, folder, opening)
        self.pushes = Pushes(self.core)
        self.meet_calls = MeetCalls(self.core)
        self._clipping = StepClipping(self.core, self.pushes)
        self._notes = BoardNotes()
        self._absent_workers = AbsentWorkers(self.core, self.pushes.apply_if_complete)
        self._absent_workers.begin()
        self._saves = Saves(self.core.gate.closed, self.core.mark)
        self._cuts = Cuts(self.core, self._saves)
        self._moving = Moving(self.core, self._saves, self._cuts)
        self._arriving = Arriving(self.core)
        self._changing = Changing(self.core, self.pushes, self._moving, self.finished)
        self.publishing = Publishing(self.core)
        self.standby: Standby | None = None
        if standing is not None and self.core.durability is not None:
            self.standby = Standby(self.core, self.core.durability, standing, self._lead)
        self._methods: dict[str, Callable[[Any, Tensors], Answered]] = {
            "Declare": self._declare,
            "Start": self._changing.start,
            "Keep": self._changing.keep,
            "Pull": self.pushes.pull,
            "Push": self.pushes.push,
            "Assign": self._changing.assign,
            "Norm": self._clipping.answer,
            "Join": self._changing.join,
            "Leave": self._changing.leave,
            "Save": self._save,
            "Cut": self._cuts.answer,
            "Reshard": self._reshard,
            "Load": self._changing.load,
            "Meet": self._meet,
            "Take": self._changing.take,
            "Shrink": self._changing.shrink,
            "Forget": self._changing.forget,
            "Stats": self._report,
            "Board": self._board,
            "Follow": self._follow,
            "Publish": self._publish,
        }

        self.publishing.look()
        if not self.core.is_copy:
            self.pushes.apply_if_complete()  # a step whose pushes were kept: nothing is added up in a journal

    def _lead(self) -> None:
        """The copy that this process was is the server now."""
        self._absent_workers.begin()
        self.publishing.look()
        self.pushes.apply_if_complete()

    def handle(self, method: str, header: Message, tensors: Tensors) -> Answered:
        """Answer one call; see fleet.ps.wire.transport.Handler."""
        function = self._methods.get(method)
        if function is None:
            raise UsageError(f"there is no method {method!r}")
        self.core.admit(header.caller.term)  # type: ignore[attr-defined]  # every request says who calls
        confine_request(method, header)
        self.pushes.hear(header.caller)  # type: ignore[attr-defined]
        return function(header, tensors)

    @property
    def state(self) -> ServerState:
        """What this server would lose if it died, and may not: see `fleet.ps.durable.durability`."""
        return self.core.state

    def close(self) -> None:
        """Let calls that wait end with an error, and the journal go; where every worker has left, it is removed."""
        self._moving.close()
        self.publishing.close()
        self.core.close()
        if self.standby is not None:
            self.standby.close()
        self.publishing.close()  # what has waited for the copy ends now
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
        self.publishing.look()
        return reply, ()

    def _publish(self, header: ps_pb2.PublishRequest.Header, tensors: Tensors) -> Answered:
        answer = self._changing.publish(header, tensors)
        self.publishing.look()
        return answer

    def _save(self, header: ps_pb2.SaveRequest.Header, _: Tensors) -> Answered:
        holdings = self.core.known(header.caller)
        if header.cut:
            return self._cuts.save(holdings, header), ()
        return self._saves.save(holdings, header, lambda: SaveMoment.of(self.state)), ()

    def _meet(self, header: ps_pb2.MeetRequest.Header, _: Tensors) -> Answered:
        return self.meet_calls.meet(header), ()

    def _reshard(self, header: ps_pb2.ReshardRequest.Header, _: Tensors) -> Answered:
        if header.phase in (ps_pb2.ReshardRequest.FILL, ps_pb2.ReshardRequest.ADOPT):
            return self._arriving.answer(header), ()
        return self._moving.answer(header), ()

    def _report(self, header: ps_pb2.StatsRequest.Header, _: Tensors) -> Answered:
        holdings = self.core.known(header.caller)
        with self.core.changed:
            awaited = awaited_by_all(holdings, self.state.rounds)
        durability = self.core.durability
        journal = {} if durability is None else {"journal": durability.counts()}
        published = {"publish": self.state.publish.url, "forgotten": self.state.num_forgotten}
        published["forgetting"] = durability is not None and self.state.forgotten_at > 0
        stats = self.state.stats.to_json(holdings, self.state.rounds.version, **journal, **published)
        return ps_pb2.StatsReply.Header(stats=stats, awaited=awaited.what, missing=awaited.workers), ()

    def _follow(self, header: ps_pb2.FollowRequest.Header, tensors: Tensors) -> Answered:
        if self.standby is None:
            raise UsageError("the servers of this job have no copies; start it by fleetrun --standby")
        return self.standby.answer(header, tensors)

    def _board(self, header: ps_pb2.BoardRequest.Header, _: Tensors) -> Answered:
        self.core.refuse_moved()
        return self._notes.answer(header), ()
