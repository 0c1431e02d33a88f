"""Who may come to a meeting of workers on a server, who will not, and what the journal knows of it."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from fleet import _native
from fleet.errors import CommunicationError
from fleet.ps.job.patience import is_durable
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.meetings.waiting import CallVisit, Elsewhere
from fleet.ps.proto import ps_pb2

if TYPE_CHECKING:
    from fleet.ps.steps.core import Core


class MeetCalls:
    """Answers `Meet`: admits the caller, has the journal know what it says, and lets it wait."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def meet(self, header: ps_pb2.MeetRequest.Header) -> ps_pb2.MeetReply.Header:
        """Note what a worker says, and wait on its behalf."""
        admitted = self._admit(header)
        self._record(header)
        return self._core.state.meetings.answer(header, *admitted)

    def visit(self, call: _native.PlaneCall, header: ps_pb2.MeetRequest.Header) -> CallVisit | None:
        """Do the same for a call that native code keeps: the visit if it waits, None if it has been answered."""
        visit = CallVisit(header, *self._admit(header), call)
        self._record(header)
        return visit if self._core.state.meetings.visit(visit) else None

    def would_block(self, header: ps_pb2.MeetRequest.Header) -> bool:
        """Whether a call has to wait before it can even be noted."""
        return (self._core.gate.is_closing or self._core.awaited > 0) and self._is_recorded(header)

    def _admit(self, header: ps_pb2.MeetRequest.Header) -> tuple[int, Elsewhere]:
        """How many workers there are, and who of the missing will not come; an error where the caller may not."""
        core = self._core
        if is_durable() and not header.caller.incarnation:  # workers may meet before any has declared the job
            self._refuse_if_over()
            return len(header.others), self._nobody
        job, rounds = core.known(header.caller).job, core.state.rounds
        # In a durable job a push may be from a former life, while the next one has yet to come here.
        is_telling = job.mode == "sync" and header.is_between_steps and not is_durable()

        def elsewhere(missing: Set[int]) -> list[int]:
            core.known(header.caller)  # called again and again while it waits
            found = rounds.away_of(missing)
            if is_telling and header.caller.worker not in (pushed := rounds.pushed()):
                found |= missing & pushed
            return sorted(found)

        return job.num_workers, elsewhere

    def _nobody(self, _: Set[int]) -> list[int]:
        self._refuse_if_over()
        return []

    def _refuse_if_over(self) -> None:
        if self._core.is_closed:
            raise CommunicationError("the server is stopping")
        self._core.refuse_moved()

    def _record(self, header: ps_pb2.MeetRequest.Header) -> None:
        """Have the journal know what a worker says, if there is one and it is new."""
        if self._is_recorded(header):
            with self._core.gate.open():
                self._core.change(Kind.MEET, [RecordPart(header.SerializeToString())], header)

    def _is_recorded(self, header: ps_pb2.MeetRequest.Header) -> bool:
        meetings, said = self._core.state.meetings, (header.name, header.caller.worker, header.text)
        return header.is_here and self._core.durability is not None and not meetings.has_said(*said)
