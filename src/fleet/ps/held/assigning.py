"""Rows that a worker writes by value on a server: each message is taken once, as a push is, and is in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import CommunicationError
from fleet.ps.held.requests import AssignedRows, read_assigned
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.proto import ps_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.steps.core import Core
    from fleet.ps.wire.messages import Tensors


class Assigning:
    """Answers `Assign`. Nothing else happens on the server meanwhile."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def answer(self, header: ps_pb2.AssignRequest.Header, tensors: Tensors) -> tuple[Message, Tensors]:
        """Write the rows, unless they were written before."""
        core, caller = self._core, header.caller
        rows = read_assigned(header, tensors, core.known(caller).job)
        claim = caller.worker, caller.incarnation, header.sequence
        while True:
            while not core.door.wait(*claim):
                core.known(caller)  # the server may be stopping
            with core.gate.closed:
                is_shut = core.door.is_shut
                if is_shut and not core.door.admits(*claim):  # a cut has begun since
                    continue
                with core.state.ledger.once(*claim) as is_new:
                    evicted = self._assign(rows, RecordPart(header.SerializeToString(), tensors)) if is_new else 0
                break
        if is_shut:
            core.door.entered()
            core.door.entered_too()
        return ps_pb2.AssignReply.Header(evicted=evicted), ()

    def _assign(self, rows: AssignedRows, record: RecordPart) -> int:
        core, holdings = self._core, self._core.state.held
        core.refuse_failed()
        name = holdings.job.tables[rows.table].name
        try:
            holdings.tables[rows.table].refuse_if_full()
        except OSError as error:
            raise CommunicationError(
                f"server {holdings.server} cannot write rows of table {name!r}: {error.strerror}"
            ) from None
        core.record(Kind.ASSIGN, [record])
        try:
            evicted = core.state.assign(rows)
        except Exception as error:  # what the journal says has not happened here
            core.failure = f"rows of table {name!r} could not be written on this server: {error}; start it again"
            raise
        if core.noted is not None:
            core.noted.add_assigned(rows)
        return evicted
