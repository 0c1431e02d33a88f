"""The table of changes: whatever a server may not lose changes by one of these, live and when a journal is replayed.

A change has an id from its caller, by which one that comes again is known and not made again. It is made in three steps
(`fleet.ps.steps.core.Core.change`):

    check    may refuse, and has no effect: what it raises may be asked again
    record   into the journal; where that fails nothing has happened either
    apply    the same for a request and for a record that is read back. It must not fail: a server where it does has
             a part of a change that its journal has whole, and takes nothing more until it has replayed that

Ids are of three kinds. A *number* counts the pushes and other changes of one life of a worker, the same on all
servers; the ledger has those that were made, with their answers. Where several servers make one change, the worker
writes it down before the first of them gets it, and its next life finishes it (`fleet.ps.worker.calling.outbox`).
What is asked again and again, such as a meeting, has a *name* that says whether it is new. A synchronous *step* is
known by its number; each of its pushes has one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.errors import UsageError
from fleet.ps.held.applicable import check_room
from fleet.ps.held.holdings import Holdings, Skip, make_holdings
from fleet.ps.held.requests import PushedUpdate, read_assigned, read_dense, read_kept, read_push, update_of
from fleet.ps.held.touched import MARKS, Marked, TableKeys
from fleet.ps.held.touched import read_mark as read_keys_mark
from fleet.ps.job.spec import JobSpec
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.meetings.pieces import read_take
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.parts import adopt
from fleet.ps.steps.state import PublishTo

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.steps.state import ServerState

Parts = Sequence[RecordPart]


class Change(NamedTuple):
    """One kind of change."""

    calls: tuple[str, ...]
    """The calls of proto/ps.proto by which it comes."""
    known_by: str
    """What tells one that comes again."""
    read: Callable[[ServerState, Parts], Any]
    """What the parts of its record ask for; an error, and no effect, if they do not fit the job."""
    apply: Callable[[ServerState, Any, Skip], Any]
    """Makes it, but for the shards of tables that have it already."""
    check: Callable[[ServerState, Any], None] = lambda _, __: None
    """Raises if it cannot be made now; changes nothing."""
    needs_whole: bool = False
    """Whether a server where a change has failed refuses it."""


def _declaration(state: ServerState, parts: Parts) -> tuple[ps_pb2.DeclareRequest.Header, Holdings | None]:
    header = ps_pb2.DeclareRequest.Header.FromString(parts[0].header)
    if state.holdings is not None:
        return header, None
    return header, make_holdings(JobSpec.from_json(header.job), header.server_index, state.device)


def _declare(state: ServerState, asked: tuple[ps_pb2.DeclareRequest.Header, Holdings | None], _: Skip) -> None:
    header, made = asked
    if made is not None:
        state.begin(made, header.run)
    if header.caller.incarnation:
        state.absent_after_ms = header.absent_after_ms
        state.greet(header.caller.worker, header.caller.incarnation, header.life, has_left=header.has_left)


def _first_values(state: ServerState, parts: Parts) -> tuple[Any, Any]:
    holdings, tensors, who = state.held, parts[0].tensors, "first values"
    num_groups = len(holdings.groups)
    values = read_dense(tensors[:num_groups], holdings.job, holdings.server, who)
    return values, read_kept(tensors[num_groups:], holdings.job, holdings.server, who)


def _update(state: ServerState, part: RecordPart) -> PushedUpdate:
    header = ps_pb2.PushRequest.Header.FromString(part.header)
    return update_of(header, read_push(state.held.reader, header, part.tensors, state.held.job))


def _push(state: ServerState, update: PushedUpdate, skip: Skip) -> Any:
    state.ledger.take(update.worker, update.sequence)
    return state.push(update, skip)


Step = tuple[Sequence[PushedUpdate], float]
"""The pushes of a synchronous step, and the squared norm of their mean on all servers, where the job limits it."""


def _pushes_of_step(state: ServerState, parts: Parts) -> Step:
    squared_norm = ps_pb2.PushRequest.Header.FromString(parts[0].header).squared_norm
    return [_update(state, part) for part in parts], squared_norm


def _check_step(state: ServerState, asked: Step) -> None:
    if trained := [update for update in asked[0] if not update.is_pass]:
        state.held.check(trained)


def _step(state: ServerState, asked: Step, skip: Skip) -> int:
    for update in asked[0]:
        state.ledger.take(update.worker, update.sequence)
    return state.step(*asked, skip)


def _collected(state: ServerState, parts: Parts) -> PushedUpdate:
    return replace(_update(state, parts[0]), record=parts[0])


def _check_collected(state: ServerState, update: PushedUpdate) -> None:
    with state.lock:
        state.rounds.check(update)


def _collect(state: ServerState, update: PushedUpdate, _: Skip) -> None:
    with state.lock:
        state.rounds.add(update)
    state.ledger.take(update.worker, update.sequence)


def step_part(updates: Sequence[PushedUpdate], squared_norm: float) -> RecordPart:
    """What a journal keeps of a step whose pushes it has: whose they are, and the norm of their mean."""
    workers = [update.worker for update in updates]
    header = ps_pb2.PushRequest.Header(step=updates[0].step, participants=workers, squared_norm=squared_norm)
    return RecordPart(header.SerializeToString())


def _collected_step(state: ServerState, parts: Parts) -> Step:
    header = ps_pb2.PushRequest.Header.FromString(parts[0].header)
    return state.rounds.waiting(header.participants), header.squared_norm


Numbered = tuple[Any, Any]
"""The header of a change that has a number, and what its tensors hold."""


def _asked(header: type[Any], what: Callable[[ServerState, Any, Any], Any] = lambda *_: None) -> Any:
    """Reads a change that has a number."""

    def read(state: ServerState, parts: Parts) -> Numbered:
        found = header.FromString(parts[0].header)
        return found, what(state, found, parts[0].tensors)

    return read


def _made(apply: Callable[[ServerState, Any, Any, Skip], Message]) -> Callable[[ServerState, Numbered, Skip], Message]:
    """Makes a change that has a number: the ledger remembers it with its answer."""

    def made(state: ServerState, asked: Numbered, skip: Skip) -> Message:
        reply = apply(state, *asked, skip)
        state.ledger.take(asked[0].caller.worker, asked[0].sequence, reply.SerializeToString())
        return reply

    return made


def _kept(state: ServerState, header: ps_pb2.KeepRequest.Header, tensors: Any) -> Any:
    return read_kept(tensors, state.held.job, state.held.server, f"worker {header.caller.worker}")


def _keep(state: ServerState, _: Any, kept: Any, __: Skip) -> Message:
    state.held.keep(kept)
    return ps_pb2.KeepReply.Header()


def _join(state: ServerState, header: ps_pb2.JoinRequest.Header, _: Any, __: Skip) -> Message:
    worker = header.caller.worker
    with state.lock:
        if header.is_out:
            state.rounds.leave_steps(worker)
            return ps_pb2.JoinReply.Header()
        return ps_pb2.JoinReply.Header(step=state.rounds.join_steps(worker, header.step, header.every))


def _check_join(state: ServerState, _: Numbered) -> None:
    if not state.held.job.is_elastic:
        raise UsageError("the number of workers of this job does not change; start it with --worker_num A:B")


def _publish(state: ServerState, header: ps_pb2.PublishRequest.Header, _: Any, __: Skip) -> Message:
    state.publish = PublishTo(header.url, header.every_s)
    return ps_pb2.PublishReply.Header()


def _leave(state: ServerState, header: ps_pb2.LeaveRequest.Header, _: Any, __: Skip) -> Message:
    state.leave(header)
    return ps_pb2.LeaveReply.Header()


def _shrink(state: ServerState, header: ps_pb2.ShrinkRequest.Header, _: Any, skip: Skip) -> Message:
    deleted, rows = state.held.shrink(header, state.clock.now, skip)
    return ps_pb2.ShrinkReply.Header(deleted=deleted, rows=rows)


def _forget(state: ServerState, header: ps_pb2.ForgetRequest.Header, _: Any, skip: Skip) -> Message:
    rows, waiting = state.forget(header, skip)
    return ps_pb2.ForgetReply.Header(rows=rows, waiting=waiting)


def _mark(state: ServerState, asked: Marked, skip: Skip) -> list[TableKeys]:
    return [] if skip(MARKS) else state.touched.mark(asked)


CHANGES: Mapping[Kind, Change] = {
    Kind.DECLARE: Change(("Declare",), "the life that the worker has drawn", _declaration, _declare),
    Kind.START: Change(
        ("Start", "Declare"),
        "whether there are first values",
        _first_values,
        lambda state, asked, _: state.held.start(*asked),
    ),
    Kind.KEEP: Change(("Keep",), "a number", _asked(ps_pb2.KeepRequest.Header, _kept), _made(_keep)),
    Kind.PUSH: Change(
        ("Push",),
        "a number",
        lambda state, parts: _update(state, parts[0]),
        _push,
        lambda state, update: state.held.check([update]),
        needs_whole=True,
    ),
    # Comes complete by the last of its pushes, by the word about its norm, or since nobody waits for a worker any more.
    Kind.STEP: Change(
        ("Push", "Norm", "Leave", "Join"),
        "the number of the step",
        _pushes_of_step,
        _step,
        _check_step,
        needs_whole=True,
    ),
    # Where servers have copies: a push is recorded when it comes, and the step once all servers have all of it.
    Kind.COLLECT: Change(("Push",), "a number", _collected, _collect, _check_collected, needs_whole=True),
    Kind.COMPLETE: Change(("Norm",), "the number of the step", _collected_step, _step, _check_step, needs_whole=True),
    Kind.ASSIGN: Change(
        ("Assign",),
        "a number",
        _asked(
            ps_pb2.AssignRequest.Header, lambda state, header, tensors: read_assigned(header, tensors, state.held.job)
        ),
        _made(lambda state, _, rows, skip: ps_pb2.AssignReply.Header(evicted=state.assign(rows, skip))),
        lambda state, asked: check_room(state.held.tables[asked[0].table]),
        needs_whole=True,
    ),
    Kind.JOIN: Change(("Join",), "a number", _asked(ps_pb2.JoinRequest.Header), _made(_join), _check_join),
    # Server 0 itself goes on without a worker; what that concerns is known by the step.
    Kind.LEAVE: Change(("Leave",), "a number", _asked(ps_pb2.LeaveRequest.Header), _made(_leave)),
    Kind.SHRINK: Change(
        ("Shrink",),
        "a number",
        _asked(ps_pb2.ShrinkRequest.Header),
        _made(_shrink),
        lambda state, asked: state.held.check_shrink(asked[0], state.clock.now),
        needs_whole=True,
    ),
    Kind.FORGET: Change(
        ("Forget",),
        "a number",
        _asked(ps_pb2.ForgetRequest.Header),
        _made(_forget),
        lambda state, asked: state.held.check_forget(asked[0]),
        needs_whole=True,
    ),
    # What a load makes is a snapshot, which is its record (`Core.replace`): behind this mark there is nothing to make.
    Kind.LOAD: Change(("Load", "Declare", "Reshard"), "a number", lambda _, parts: parts, lambda _, __, ___: None),
    Kind.MEET: Change(
        ("Meet",),
        "the name of the meeting, and the worker",
        lambda _, parts: ps_pb2.MeetRequest.Header.FromString(parts[0].header),
        lambda state, header, _: state.meetings.come(header.name, header.caller.worker, header.text),
    ),
    Kind.TAKE: Change(
        ("Take",),
        "the queue, and how often the worker has taken",
        lambda _, parts: read_take(ps_pb2.TakeRequest.Header.FromString(parts[0].header)),
        lambda state, asked, _: state.pieces.change(*asked),
    ),
    Kind.PUBLISH: Change(("Publish",), "a number", _asked(ps_pb2.PublishRequest.Header), _made(_publish)),
    Kind.MARK: Change(("Save", "Cut"), "the mark", lambda _, parts: read_keys_mark(parts[0]), _mark),
    Kind.ADOPT: Change(("Reshard",), "the layout", lambda _, parts: parts, lambda state, parts, _: adopt(state, parts)),
}
