"""A worker's outbox: what is under way to servers, on the disk, so that all of them get it even if the worker dies.

A push, or another change, goes to several servers. A worker that dies between two of them would leave servers that
have it and others that do not. So it is written down before the first server gets it; the worker's next life sends it
again, in the name of the former, before it declares itself. A server that has it says so; one that has not makes it.
Where journals are on the disk before a push is answered, so is this before it is sent.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet import env
from fleet.errors import CheckpointError, CommunicationError, MovedError, NotReadyError, OutdatedError, UsageError
from fleet.jobfiles.kept import DRAINED, LEFT
from fleet.ps.job.patience import rpc_timeout_s, step_timeout_s
from fleet.ps.journal.files import sync_folder, write_all
from fleet.ps.journal.records import MAGIC, JournalError, JournalRecord, Kind, RecordPart, encode, read_one
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall, outcomes, results
from fleet.ps.wire.status import FailedServerError
from fleet.ps.worker.calling.step_norm import keeps_pushes, settle_again

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtoMessage

    from fleet.ps.wire.messages import Tensors
    from fleet.ps.worker.calling.server_set import ServerSet

Message = tuple[Any, "Tensors"]
"""The header and the tensors of a request."""
REFUSED = UsageError, CheckpointError, FailedServerError
"""What servers refuse in a former life's name they have refused that life; one that failed waits for a load."""
LONGEST_CHANGE_S = 3600.0
"""How long a server may take for a change, which may be a load of all its rows."""
INPUTS = "inputs-0", "inputs-1"
"""Files beside the outbox, with what the last steps were computed from (`fleet.ps.worker.life.inputs`)."""
LEAVE_S = 5.0
"""How long a worker that has finished tries to say so; its gradients have all arrived."""

_MARK = MAGIC.to_bytes(4, "little")
_UNFINISHED = bytes(len(_MARK))
_log = logging.getLogger(__name__)


class HalfMadeError(CommunicationError):
    """Some servers have made a change that others refuse: it is neither over nor undone."""


REFUSED_BY_SOME = *REFUSED, HalfMadeError


class Finished(NamedTuple):
    """A change of a former life that all servers have made now, with what each has answered."""

    turns: Sequence[str]
    """The names by which the script's next life knows it."""
    method: str
    replies: Sequence[Any]


def own_outbox(worker: int) -> NoOutbox:
    """The outbox of a worker of a durable job; in any other job there is no next life to send it."""
    folder = env.FLEET_DURABLE.get()
    if folder is None:
        return NoOutbox()
    return Outbox(Path(folder) / f"worker-{worker}" / "outbox", env.FLEET_JOURNAL.get() or "OS")


class NoOutbox:
    """The contract, and the outbox of a worker that has no next life: it keeps nothing."""

    has_left = False
    """Whether what `finish` has found is the leave of a former life."""
    mark = ""
    """What that life is marked with where nothing is left to do for this one."""

    def put(self, messages: Sequence[Message]) -> None:
        """Write down a push, one message for each server, in the place of the one before, which has arrived."""

    def intend(self, method: str, messages: Sequence[Message], turns: Sequence[str] = ()) -> None:
        """Write down another change, in the place of the one before, until it is `done`."""

    def done(self) -> None:
        """Forget the change that was written down: all servers have made it, or it was refused."""

    def forget_push(self) -> None:
        """Let go of the last push, which has arrived, and of what it was computed from: rows will be forgotten."""

    def finish(self, server_set: ServerSet, *, is_settled: bool = False) -> Finished | None:  # noqa: ARG002
        """Let every server have what a former life wrote down last: its push, and its other change, which is returned.

        `is_settled`: its step has a norm that workers add up (`fleet.ps.server.clipping`).
        """
        return None

    def remove(self, mark: str = LEFT) -> None:
        """Forget everything, and let fleetrun know that this worker has left in order."""


class Outbox(NoOutbox):
    """A file with the last push of a worker, another with a change that is being made. One thread writes each."""

    def __init__(self, path: Path, policy: str) -> None:
        self._push = _File(path, is_synced=policy == "ALWAYS")
        self._change = _File(path.with_name("change"), is_synced=policy != "OS")
        self._left = path.with_name(LEFT)

    def put(self, messages: Sequence[Message]) -> None:
        self._push.write(Kind.PUSH, _parts(messages))

    def intend(self, method: str, messages: Sequence[Message], turns: Sequence[str] = ()) -> None:
        parts = [RecordPart(json.dumps(turns).encode()), *_parts(messages)]
        self._change.write(Kind[method.upper()], parts)

    def done(self) -> None:
        self._change.remove()

    def forget_push(self) -> None:
        for name in (self._push.path.name, *INPUTS):
            with suppress(FileNotFoundError):
                os.truncate(self._push.path.with_name(name), 0)

    def finish(self, server_set: ServerSet, *, is_settled: bool = False) -> Finished | None:
        self._left.unlink(missing_ok=True)
        late = NotReadyError, OutdatedError  # servers of another run, or a later life has come and gone
        change = self._change.read()
        # A load takes the place of what was pushed before.
        # Without fleetrun servers end when all have left, and who had begun to leave had every push answered.
        is_over = change is not None and (
            change.kind == Kind.LOAD or (change.kind == Kind.LEAVE and not env.is_under_fleetrun())
        )
        pushed = [] if is_over else self._last_push()
        try:
            self._finish_push(server_set, pushed, is_settled)
        except late:
            pass
        except REFUSED as error:
            _log.warning("a push of this worker's former life is given up: %s", error)
        with suppress(*late):
            return None if change is None else self._finish_change(server_set, change)
        return None

    def _finish_push(self, server_set: ServerSet, messages: Sequence[Message], is_settled: bool) -> None:
        if len(messages) != len(server_set.transports):  # what servers of another number had of it, these have
            return
        if server_set.job.is_elastic and server_set.job.mode == "sync":  # server 0 says whose pushes the step has
            (first, _), *_ = answers = results(_calls(server_set, "Push", messages[:1]))
            for header, _ in messages[1:]:
                header.participants[:] = first.participants  # type: ignore[attr-defined]
            answers += results(_calls(server_set, "Push", messages[1:], first=1))
        else:
            answers = results(_calls(server_set, "Push", messages))
        if (is_settled and not messages[0][0].is_pass) or keeps_pushes(server_set):
            headers = [header for header, _ in messages]
            settle_again(server_set, headers, lambda: results(_calls(server_set, "Push", messages)))
        if any(isinstance(reply, ps_pb2.PushReply.Header) and not reply.was_repeated for reply, _ in answers):
            _log.info("a push of this worker's former life had not reached all servers, and was sent again")

    def _finish_change(self, server_set: ServerSet, record: JournalRecord) -> Finished | None:
        self.has_left = record.kind == Kind.LEAVE
        method = record.kind.name.capitalize()
        header = getattr(ps_pb2, f"{method}Request").Header
        messages: list[Message] = [(header.FromString(part.header), part.tensors) for part in record.parts[1:]]
        if len(messages) != len(server_set.transports):
            if any(tensors for _, tensors in messages):  # cut for servers of another number, which have it if any had
                return None
            messages = [(header.FromString(record.parts[1].header), ()) for _ in server_set.transports]
            for one, _ in messages:
                one.caller.instance = 0
        if self.has_left and messages[0][0].is_drained:
            self.mark = DRAINED
        may_be_gone = self.has_left and not self.mark and not env.is_under_fleetrun()
        try:
            if may_be_gone:
                replies = self._leave(server_set, messages)
            else:
                replies = [reply for reply, _ in all_or_none(_calls(server_set, method, messages))]
        except HalfMadeError as error:
            raise HalfMadeError(f"{error}; or remove {self._change.path}, and load one checkpoint") from None
        except REFUSED as error:
            _log.warning("a %s of this worker's former life is given up: %s", method, error)
            return None
        _log.info("a %s of this worker's former life was brought to its end", method)
        return Finished(json.loads(record.parts[0].header), method, replies)

    def _leave(self, server_set: ServerSet, messages: Sequence[Message]) -> list[ProtoMessage]:
        """Take leave of servers that end when all have left; where none is there, they may be about to come."""
        replies: list[ProtoMessage] = []
        gone: list[CommunicationError] = []
        for patience_s in (min(LEAVE_S, rpc_timeout_s()), rpc_timeout_s()):
            gone.clear()
            for call in _calls(server_set, "Leave", messages, patience_s=patience_s):
                try:
                    replies.append(call.result()[0])
                except CommunicationError as error:
                    if not error.retryable:
                        raise
                    gone.append(error)
            if replies:
                break
        if gone:
            self.mark = LEFT
            _log.warning("this worker's former life has left; a server that is gone has ended: %s", gone[0])
        return replies

    def remove(self, mark: str = LEFT) -> None:
        with suppress(OSError):  # the disk is full, or the folder gone
            self._left.parent.mkdir(parents=True, exist_ok=True)
            self._left.with_name(mark).touch()
        self._push.remove()
        self._change.remove()

    def _last_push(self) -> list[Message]:
        messages = []
        try:
            record = self._push.read()
        except CheckpointError as error:
            if not self._push.is_synced:
                raise
            _log.warning("%s. Power was lost while it was written, if nothing else: it is given up", error)
            record = None
        for part in () if record is None else record.parts:
            header = ps_pb2.PushRequest.Header.FromString(part.header)
            if header.timeout_ms:
                header.timeout_ms = int(step_timeout_s() * 1000)
            tensors = part.tensors[: len(part.tensors) - len(header.pull_tables)]
            for name in ("pull_tables", "pull_only_read", "pull_formats", "want_rows", "want_dense"):
                header.ClearField(name)
            messages.append((header, tensors))
        return messages


class _File:
    """A file of one record, which each that is written takes the place of.

    Its first bytes are zeros while it is written: what is damaged then was sent to nobody.
    """

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        self.path = path
        self.is_synced = is_synced
        self._file = -1

    def write(self, kind: Kind, parts: Sequence[RecordPart]) -> None:
        head, *body = encode(1, kind, parts)
        try:
            if self._file < 0:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if self.is_synced:
                    sync_folder(self.path.parent)
                    sync_folder(self.path.parent.parent)
            os.lseek(self._file, 0, os.SEEK_SET)
            write_all(self._file, [_UNFINISHED + head[len(_UNFINISHED) :], *body])
            if self.is_synced:
                os.fdatasync(self._file)
            os.pwrite(self._file, _MARK, 0)
        except OSError as error:
            raise UsageError(
                f"a worker of a durable job writes down what it sends, and cannot in {self.path}: "
                f"{error.strerror or error}; make room on that disk"
            ) from None

    def read(self) -> JournalRecord | None:
        """The record; None if there is none, or half a one: its worker died while it wrote, before it sent anything."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from None
        try:
            return read_one(self.path, memoryview(_MARK + data[len(_MARK) :]), 0)
        except JournalError as error:
            if not data or data.startswith(_UNFINISHED):
                return None
            raise self._damaged(str(error).partition(". ")[0]) from None

    def _damaged(self, why: str) -> CheckpointError:
        return CheckpointError(
            f"{why}, and some servers may lack what a worker has written down there; bring the file back, or remove it "
            "and load one checkpoint"
        )

    def remove(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self.path.unlink(missing_ok=True)


def _parts(messages: Sequence[Message]) -> list[RecordPart]:
    return [RecordPart(header.SerializeToString(), tensors) for header, tensors in messages]


def all_or_none(calls: Sequence[ServerCall]) -> list[tuple[ProtoMessage, Tensors]]:
    """The answers to a change that all servers have made; HalfMadeError if some refuse what others have made."""
    answers, errors = outcomes(calls)
    if not errors:
        return answers
    others = [error for error in errors if not isinstance(error, UsageError | CheckpointError)]
    others.sort(key=lambda error: not isinstance(error, MovedError))
    if others or not answers:
        raise (others or errors)[0]
    raise HalfMadeError(f"{errors[0]}, and other servers have made this change; mend that, and ask for it again")


def _calls(
    server_set: ServerSet,
    method: str,
    messages: Sequence[Message],
    first: int = 0,
    patience_s: float | None = None,
) -> list[ServerCall]:
    """What has servers make what is one message for each, from the first on."""
    calls = []
    for server, (header, tensors) in enumerate(messages, first):
        header.caller.term = server_set.term
        limit_s = getattr(header, "timeout_ms", 0) / 1000 + max(LONGEST_CHANGE_S, rpc_timeout_s())
        call = partial(server_set.call, timeout_s=limit_s, patience_s=patience_s, waits_for_others=True)
        calls.append(call(server, method, header, tensors))
    return calls
