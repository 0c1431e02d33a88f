"""How a server is changed but for pushes: first values, kept tensors, rows by value, leaves, loads, shrinks, pieces.

`fleet.ps.steps.changes` has what each of them does; here is who may ask for it, and what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import UsageError
from fleet.observe.metrics import events
from fleet.ps.durable import storage
from fleet.ps.held.applicable import NoRoomError
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.meetings.pieces import read_take
from fleet.ps.proto import ps_pb2
from fleet.ps.publishing.place import check_place, checked_sink
from fleet.ps.server.roots import confine
from fleet.ps.steps.changes import CHANGES
from fleet.ps.steps.core import EVERYBODY
from fleet.ps.steps.state import PublishTo

if TYPE_CHECKING:
    import threading

    from google.protobuf.message import Message

    from fleet.ps.durable.moving import Moving
    from fleet.ps.server.pushes import Pushes
    from fleet.ps.steps.core import Core
    from fleet.ps.wire.messages import Tensors

Answered = tuple["Message", "Tensors"]


class Changing:
    """Answers `Start`, `Keep`, `Assign`, `Join`, `Leave`, `Load`, `Shrink`, `Forget`, `Publish` and `Take`.

    Pushes wait meanwhile.
    """

    def __init__(self, core: Core, pushes: Pushes, moving: Moving, finished: threading.Event) -> None:
        """`finished` is set when the last worker has left."""
        self._core = core
        self._pushes = pushes
        self._moving = moving
        self._finished = finished

    def start(self, header: ps_pb2.StartRequest.Header, tensors: Tensors) -> Answered:
        """Give dense parameters and kept tensors their first values, unless they have some."""
        core, parts = self._core, [RecordPart(b"", tensors)]
        holdings = core.known(header.caller)
        asked = CHANGES[Kind.START].read(core.state, parts)
        with core.alone():
            if not holdings.is_started:
                core.change(Kind.START, parts, asked)
        core.tell()
        return ps_pb2.StartReply.Header(), ()

    def keep(self, header: ps_pb2.KeepRequest.Header, tensors: Tensors) -> Answered:
        """Replace kept tensors."""
        return self._numbered(Kind.KEEP, header, tensors, ps_pb2.KeepReply.Header)

    def assign(self, header: ps_pb2.AssignRequest.Header, tensors: Tensors) -> Answered:
        """Write rows by value."""
        return self._numbered(Kind.ASSIGN, header, tensors, ps_pb2.AssignReply.Header)

    def join(self, header: ps_pb2.JoinRequest.Header, tensors: Tensors) -> Answered:
        """Have steps wait for a worker, or no more; one may be complete without it."""
        answer = self._numbered(Kind.JOIN, header, tensors, ps_pb2.JoinReply.Header)
        self._go_on()
        return answer

    def _go_on(self) -> None:
        """Somebody is not waited for any more: look again."""
        self._core.tell(EVERYBODY)
        if self._core.state.held.job.mode == "sync":
            with self._core.gate.open():
                self._pushes.apply_if_complete()

    def leave(self, header: ps_pb2.LeaveRequest.Header, tensors: Tensors) -> Answered:
        """Let a worker go; a step may be complete without it."""
        core = self._core
        answer = self._numbered(Kind.LEAVE, header, tensors, ps_pb2.LeaveReply.Header)
        self._go_on()  # also whoever waits for one that is unfinished: it waits in vain
        if core.state.rounds.is_deserted:
            self._finished.set()
        return answer

    def shrink(self, header: ps_pb2.ShrinkRequest.Header, tensors: Tensors) -> Answered:
        """Delete rows that nobody needs any more."""

        def note(reply: ps_pb2.ShrinkReply.Header) -> None:
            self._core.state.stats.shrunk_rows += reply.deleted
            events.note("shrink", f"{reply.deleted} rows deleted, {reply.rows} left")
            self._moving.spoil()

        return self._numbered(Kind.SHRINK, header, tensors, ps_pb2.ShrinkReply.Header, note)

    def forget(self, header: ps_pb2.ForgetRequest.Header, tensors: Tensors) -> Answered:
        """Forget rows; the journal lets go of them behind the answer."""

        def note(_: ps_pb2.ForgetReply.Header) -> None:
            core = self._core
            self._moving.spoil()
            if core.durability is not None:
                core.state.forgotten_at = core.durability.journal.lsn

        return self._numbered(Kind.FORGET, header, tensors, ps_pb2.ForgetReply.Header, note)

    def load(self, header: ps_pb2.LoadRequest.Header, _: Tensors) -> Answered:
        """Replace everything by this server's part of a checkpoint; or only look whether that can be done."""
        core, path = self._core, Path(header.folder)
        holdings = core.known(header.caller)
        if header.check_only:
            return ps_pb2.LoadReply.Header(version=storage.check(holdings, path)), ()
        reply = ps_pb2.LoadReply.Header()

        def load() -> None:
            try:
                loaded = storage.load(holdings, path)
            except storage.HalfLoadedError as error:
                core.failure = str(error)
                raise
            except NoRoomError as error:
                core.fail_for_now(str(error))
                raise
            core.failure = None
            reply.rows, reply.version = loaded
            core.state.loaded(loaded.version)
            core.state.ledger.take(header.caller.worker, header.sequence, reply.SerializeToString())
            core.tell(EVERYBODY)
            self._moving.spoil()

        def make() -> Message:
            core.replace(load)
            return reply

        return self._once(header, make, core.undisturbed, ps_pb2.LoadReply.Header), ()

    def publish(self, header: ps_pb2.PublishRequest.Header, tensors: Tensors) -> Answered:
        """Publish changes from now on, or no more; or only look whether that can be done."""
        holdings, asked = self._core.known(header.caller), PublishTo(header.url, header.every_s)
        if asked.url:
            confine(str(checked_sink(asked).home))
        if header.check_only:
            if asked.url:
                check_place(asked, holdings)
            return ps_pb2.PublishReply.Header(), ()
        return self._numbered(Kind.PUBLISH, header, tensors, ps_pb2.PublishReply.Header)

    def take(self, header: ps_pb2.TakeRequest.Header, _: Tensors) -> Answered:
        """Hand out a piece of a queue, or begin one."""
        core, caller, pieces = self._core, header.caller, self._core.state.pieces
        if (server := core.known(caller).server) != 0:
            raise UsageError(f"server 0 hands out pieces, and this is server {server}")
        asked = read_take(header)
        with core.gate.open(), pieces.lock:
            core.state.ledger.check(caller.worker, caller.incarnation)  # its next life may have come
            if not pieces.changes(*asked):
                return pieces.answer(*asked), ()
            return core.change(Kind.TAKE, [RecordPart(header.SerializeToString())], asked), ()

    def _numbered(
        self,
        kind: Kind,
        header: Any,
        tensors: Tensors,
        reply: type[Message],
        note: Callable[[Any], None] = lambda _: None,
    ) -> Answered:
        """Make a change that has a number; `note` gets the answer."""
        core = self._core
        core.known(header.caller)
        change = CHANGES[kind]
        change.read(core.state, [RecordPart(header.SerializeToString(), tensors)])  # or it is refused before it waits

        def make() -> Message:
            if kind == Kind.SHRINK:
                core.state.put_in_steps(header)
            if kind == Kind.JOIN:
                header.step = core.state.rounds.unpushed  # a journal does not have the pushes of a step before its end
            parts = [RecordPart(header.SerializeToString(), tensors)]
            asked = change.read(core.state, parts)
            made: Message = core.change(kind, parts, asked)
            note(made)
            return made

        return self._once(header, make, core.alone, reply), ()

    def _once(self, header: Any, make: Callable[[], Message], enter: Any, reply: type[Message]) -> Message:
        """Make a change, or find the answer to the same one; waits while a cut is made."""
        core, caller = self._core, header.caller
        while (found := core.once(caller, header.sequence, make, enter)) is None:
            core.known(caller)  # the server may be stopping
        _, made = found
        return made or reply.FromString(core.state.ledger.answer(caller.worker, header.sequence))
