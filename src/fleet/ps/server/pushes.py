"""Pulls and pushes on a server: rows go out, gradients come in, each push once.

In synchronous mode the pushes of a step are collected and applied together, when all have come; in every other mode a
push is applied when it arrives.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.ps.held.requests import (
    PushedUpdate,
    PushOutcome,
    TablePull,
    read_pull,
    read_push,
    refuse_nonfinite,
    update_of,
)
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.proto import ps_pb2
from fleet.ps.server.clipping import norm_of_step
from fleet.ps.steps.changes import step_part
from fleet.ps.wire import callers
from fleet.ps.wire.formats import encoded_answer, encoded_rows
from fleet.ps.wire.traced import applied

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet import _native
    from fleet.ps.held.holdings import Holdings
    from fleet.ps.steps.core import Core
    from fleet.ps.wire.messages import Tensors

Answered = tuple["Message", "Tensors"]
_NEVER = 2**64 - 1
_UNRECORDED = ("pull_tables", "pull_only_read", "pull_formats", "want_dense", "want_rows", "timeout_ms", "squared_norm")


class CallTaken(NamedTuple):
    """The answer to a push that native code has read: given at once, or when a version is reached."""

    header: bytes
    """The header of the answer, or the beginning of it."""
    version: int = 0
    timeout_ms: int = 0
    num_dropped: int = _NEVER
    """How many steps had been dropped when the call began."""
    record: int = 0
    """The record that a copy must have first."""
    asks_for_all: bool = False
    """Whether the answer is due as soon as all pushes of the step are here."""
    is_held: bool = False
    """Whether the push was not taken, because a cut is made: then the answer says only that."""


class Pushes:
    """Answers `Pull` and `Push`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def pull(self, header: ps_pb2.PullRequest.Header, tensors: Tensors) -> Answered:
        """Answer with rows of some keys, dense parameters, kept tensors."""
        core = self._core
        holdings = core.known(header.caller)
        pulls = read_pull(holdings.reader, header, tensors, holdings.job)
        wants_dense = header.dense or header.kept
        version = core.wait_for(holdings, header.caller, header.version, header.timeout_ms, wants_dense=wants_dense)
        began = time.perf_counter()
        rows = self._pulled(holdings, pulls)
        if header.dense:
            rows += encoded_answer(holdings.read_dense(), holdings.job.dense, header.dense_format)
        if header.kept:
            rows += holdings.kept
        core.state.stats.answered(time.perf_counter() - began)
        return ps_pb2.PullReply.Header(version=version, data_port=core.data_port), rows

    def push(self, header: ps_pb2.PushRequest.Header, tensors: Tensors) -> Answered:
        """Take gradients, and answer with what the worker wants back."""
        core = self._core
        holdings = core.known(header.caller)
        push = read_push(holdings.reader, header, tensors, holdings.job)
        record = None if core.durability is None else _recorded(header, tensors)
        update = update_of(header, push, record)
        if not holdings.is_finite(update):
            refuse_nonfinite(update, holdings.job)
        num_dropped = core.state.rounds.num_dropped
        if (taken := self._take(holdings, header, update)) is None:
            return ps_pb2.PushReply.Header(is_held=True), ()
        version = core.state.rounds.version
        if holdings.job.mode == "sync" and header.timeout_ms and not core.keeps_pushes:  # those ask by `Norm`
            version = core.wait_for(
                holdings,
                header.caller,
                header.step + 1,
                header.timeout_ms,
                wants_dense=header.want_dense,
                num_dropped=num_dropped,
            )
        core.wait_for_copy()
        began = time.perf_counter()
        rows = self._rows_after(holdings, header, push)
        core.state.stats.answered(time.perf_counter() - began)
        reply = self.outcome(holdings, version)
        reply.MergeFrom(_fate(taken))
        reply.data_port = core.data_port
        return reply, rows

    def take_call(self, call: _native.PlaneCall) -> CallTaken | None:
        """Take a push that native code has read; None if the service must answer, because this would wait.

        In synchronous mode its answer is due when the step is complete.
        """
        core = self._core
        header = ps_pb2.PushRequest.Header.FromString(call.header)
        core.admit(header.caller.term)
        holdings = core.known(header.caller)
        is_sync, keeps = holdings.job.mode == "sync", core.keeps_pushes
        if core.door.is_shut or core.gate.is_closing or (is_sync and not keeps and core.awaited):
            return None  # the last: a step waits for its copy where it is recorded
        self.hear(header.caller)
        if is_sync:
            call.keep()  # its memory stays until the step is complete; its worker may be answered before
        record = None if core.durability is None else _recorded(header, call.tensors)
        update = update_of(header, call.push, record)
        if not holdings.is_finite(update):
            return None
        num_dropped = core.state.rounds.num_dropped
        taken = self._take(holdings, header, update)
        if taken is None:
            return CallTaken(ps_pb2.PushReply.Header(is_held=True).SerializeToString(), is_held=True)
        if is_sync and header.timeout_ms:
            if core.state.rounds.gone or not taken.is_new:  # it may wait in vain, as for a step before a load
                with core.changed:
                    core.reached(
                        holdings,
                        header.caller,
                        header.step + 1,
                        wants_dense=header.want_dense,
                        num_dropped=num_dropped,
                    )
            fate = _fate(taken).SerializeToString()
            return CallTaken(fate, header.step + 1, header.timeout_ms, num_dropped, core.awaited, keeps)
        reply = self.outcome(holdings, core.state.rounds.version)
        reply.MergeFrom(_fate(taken))
        return CallTaken(reply.SerializeToString(), record=core.awaited)

    def hear(self, caller: ps_pb2.Caller) -> None:
        """Make the present step if a caller knows that all servers have all of its pushes.

        Every call says so of its caller's last step: a copy that is the server now may not have made that.
        """
        core, rounds = self._core, self._core.state.rounds
        if not caller.told_sequence or not core.keeps_pushes:
            return
        core.known(caller)
        with core.changed:
            update = rounds.waiting_of(caller.worker)
            if update is None or update.sequence != caller.told_sequence:
                return
            rounds.sum = rounds.version, caller.told_norm
        with core.gate.open():
            self.apply_if_complete()

    def collected(self, holdings: Holdings) -> ps_pb2.PushReply.Header:
        """What an answer to a push says when all pushes of the step are here, as if it were made. Under `changed`."""
        state, updates = self._core.state, self._core.state.rounds.waiting()
        passed = [update.worker for update in updates if update.is_pass]
        return ps_pb2.PushReply.Header(
            is_collected=True,
            version=state.rounds.version,
            rows=holdings.limited_rows(),
            passed=passed,
            num_ended=state.rounds.num_ended + (len(passed) == len(updates)),
            squared_norm=state.rounds.squared_norm,
            lives=[state.ledger.incarnation(update.worker) for update in updates],
        )

    def outcome(self, holdings: Holdings, version: int) -> ps_pb2.PushReply.Header:
        """What every answer to a push says about the server, whichever worker pushed."""
        state = self._core.state
        return ps_pb2.PushReply.Header(
            version=version,
            rows=holdings.limited_rows(),
            participants=state.rounds.participants if state.absent_after_ms or holdings.job.is_elastic else (),
            num_workers=state.rounds.num_present if holdings.job.is_elastic else 0,
            passed=state.rounds.passed,
            num_ended=state.rounds.num_ended,
        )

    def apply_if_complete(self) -> int:
        """Apply the present step if all of its pushes have come; how many rows and groups were skipped.

        What can be tried again leaves the pushes where they are. A step that can never be applied is dropped, and every
        worker is told why.
        """
        core, rounds = self._core, self._core.state.rounds
        with core.applying:
            with core.changed:
                updates = rounds.complete()
            if updates is None or (squared_norm := norm_of_step(core, updates)) is None:
                return 0
            began, waited_s = time.perf_counter(), time.perf_counter() - rounds.began
            kind, parts = Kind.STEP, with_norm([one.record for one in updates if one.record], squared_norm)
            if core.keeps_pushes:
                kind, parts = Kind.COMPLETE, [step_part(updates, squared_norm)]
            try:
                skipped: int = core.change(kind, parts, (updates, squared_norm))
            except Exception as error:
                if core.failure is None and not getattr(error, "retryable", False):
                    with core.changed:
                        rounds.drop()
                        core.failure = f"step {rounds.version} failed on this server: {error}; load a checkpoint"
                raise
            applied(core, updates, began)
            core.state.stats.stepped(waited_s, time.perf_counter() - began)
            core.tell()
            return skipped

    def _take(self, holdings: Holdings, header: ps_pb2.PushRequest.Header, update: PushedUpdate) -> PushOutcome | None:
        """Collect or apply a push, unless it was taken before, and count it; None if it must wait for a cut."""
        core = self._core
        failed: list[Exception] = []

        def take() -> PushOutcome:
            if holdings.job.mode == "sync":
                return PushOutcome(is_new=True, skipped=self._collect(update, header.participants, failed))
            return self._apply(update)

        found = core.once(header.caller, header.sequence, take, core.gate.open)
        if failed:
            raise failed[0]
        if found is None:
            return None
        is_new, taken = found
        core.state.stats.count(repeated_pushes=not is_new)
        return taken or PushOutcome(is_new=False)

    def _apply(self, update: PushedUpdate) -> PushOutcome:
        """Apply a push by itself."""
        core, began = self._core, time.perf_counter()
        outcome: PushOutcome = core.change(Kind.PUSH, [update.record] if update.record else (), update)
        applied(core, [update], began)
        core.state.stats.applied(time.perf_counter() - began)
        core.tell()
        return outcome

    def _collect(self, update: PushedUpdate, participants: Sequence[int], failed: list[Exception]) -> int:
        """Keep a push until its step is complete, and apply the step if this was the last.

        `failed` gets why the step could not be applied where the push is taken all the same.
        """
        core = self._core
        if core.keeps_pushes:
            self._keep(update)
            try:
                return self.apply_if_complete()
            except Exception as error:
                failed.append(error)
                return 0
        with core.changed:
            core.refuse_failed()
            core.state.rounds.add(update)
            if participants:
                core.state.rounds.expect(update.step, participants)
            core.state.meetings.notice(update.worker)
        try:
            return self.apply_if_complete()
        except BaseException:  # it does not count as taken, and may be sent again
            with core.changed:
                core.state.rounds.withdraw(update.worker)
            raise

    def _keep(self, update: PushedUpdate) -> None:
        """Write a push of the present step down; it cannot come to nothing once that has begun."""
        core, rounds = self._core, self._core.state.rounds
        assert update.record is not None
        with core.changed:
            rounds.claim(update)
        try:
            core.change(Kind.COLLECT, [update.record], update)
        finally:
            with core.changed:
                rounds.release(update)
        with core.changed:
            core.state.meetings.notice(update.worker)

    def _rows_after(self, holdings: Holdings, header: ps_pb2.PushRequest.Header, push: _native.PlanePush) -> list[Any]:
        """What a push wants back: the rows that it changed, those that it pulls, the dense parameters."""
        rows: list[Any] = []
        if header.want_rows:
            rows += [
                encoded_rows(holdings.pull(table, keys), entry.row_format)
                for (table, keys), entry in zip(push.keys, header.tables, strict=True)
            ]
        if header.pull_tables:
            rows += self._pulled(holdings, [TablePull(*one) for one in push.pulls])
        if header.want_dense:
            rows += encoded_answer(holdings.read_dense(), holdings.job.dense, header.dense_format)
        return rows

    def _pulled(self, holdings: Holdings, pulls: Sequence[TablePull]) -> list[Any]:
        callers.reserve(sum(4 * len(part.keys) * holdings.job.tables[part.table].width for part in pulls))
        self._core.state.stats.count(pulls=1, pulled_rows=sum(len(part.keys) for part in pulls))
        return [encoded_rows(holdings.pull(part.table, part.keys, part.reads_zeros), part.format) for part in pulls]


def _recorded(header: ps_pb2.PushRequest.Header, tensors: Tensors) -> RecordPart:
    """What a journal keeps of a push: nothing of the pull that rides on it."""
    kept = ps_pb2.PushRequest.Header()
    kept.CopyFrom(header)
    for name in _UNRECORDED:
        kept.ClearField(name)
    kept.caller.ClearField("is_traced")
    return RecordPart(kept.SerializeToString(), tensors[: len(tensors) - len(header.pull_tables)])


def with_norm(parts: Sequence[RecordPart], squared_norm: float) -> Sequence[RecordPart]:
    """What a journal keeps of a step: of one whose norm is limited, the first push has that norm."""
    if not parts or not squared_norm:
        return parts
    header = ps_pb2.PushRequest.Header.FromString(parts[0].header)
    header.squared_norm = squared_norm
    return [RecordPart(header.SerializeToString(), parts[0].tensors), *parts[1:]]


def _fate(taken: PushOutcome) -> ps_pb2.PushReply.Header:
    """What an answer says of the push itself."""
    return ps_pb2.PushReply.Header(was_repeated=not taken.is_new, staleness=taken.staleness, skipped=taken.skipped)
