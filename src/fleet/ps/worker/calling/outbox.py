"""A worker's outbox: the push that is under way, on the disk, so that all servers get it even if the worker dies.

A push goes to several servers. A worker that dies between two of them would leave a step that some servers have and
others do not. So the push is written down before the first server gets it; the worker's next life sends it again, in
the name of the former, before it declares itself. A server that has it says so; one that has not takes it. Where
journals are on the disk before a push is answered, so is this before it is sent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet import env
from fleet.errors import CommunicationError, NotReadyError, UsageError
from fleet.jobfiles.kept import LEFT
from fleet.ps.job.patience import rpc_timeout_s, step_timeout_s
from fleet.ps.journal.files import sync_folder, write_all
from fleet.ps.journal.records import JournalError, Kind, RecordPart, encode, read_one
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall, results
from fleet.ps.wire.voices import voice_of
from fleet.ps.worker.calling.step_norm import settle_again

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Transport

Message = tuple[ps_pb2.PushRequest.Header, "Tensors"]

_log = logging.getLogger(__name__)


def own_outbox(worker: int) -> NoOutbox:
    """The outbox of a worker of a durable job; in any other job there is no next life to send it."""
    folder = env.FLEET_DURABLE.get()
    if folder is None:
        return NoOutbox()
    return Outbox(Path(folder) / f"worker-{worker}" / "outbox", is_synced=env.FLEET_JOURNAL.get() == "ALWAYS")


class NoOutbox:
    """The contract, and the outbox of a worker that has no next life: it keeps nothing."""

    def put(self, messages: Sequence[Message]) -> None:
        """Write down a push, one message for each server, in the place of the one before, which has arrived."""

    def send_again(self, transports: Sequence[Transport], *, is_settled: bool = False) -> None:
        """Let every server have the push that a former life wrote down last; nothing happens if there is none.

        `is_settled`: its step has a norm that workers add up (`fleet.ps.server.clipping`).
        """

    def remove(self) -> None:
        """Forget the last push, and let fleetrun know that this worker has left in order."""


class Outbox(NoOutbox):
    """One file with the last push of a worker. Used from one thread at a time."""

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        self._path = path
        self._is_synced = is_synced
        self._file = -1

    def put(self, messages: Sequence[Message]) -> None:
        parts = [RecordPart(header.SerializeToString(), tensors) for header, tensors in messages]
        try:
            if self._file < 0:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if self._is_synced:
                    sync_folder(self._path.parent)
                    sync_folder(self._path.parent.parent)
            os.lseek(self._file, 0, os.SEEK_SET)
            write_all(self._file, encode(1, Kind.PUSH, parts))
            if self._is_synced:
                os.fdatasync(self._file)
        except OSError as error:
            raise UsageError(
                f"a worker of a durable job writes down what it sends, and cannot in {self._path}: "
                f"{error.strerror or error}; make room on that disk"
            ) from None

    def send_again(self, transports: Sequence[Transport], *, is_settled: bool = False) -> None:
        self._path.with_name(LEFT).unlink(missing_ok=True)
        messages = self._read()
        if len(messages) != len(transports):
            return

        def send() -> Sequence[tuple[Any, Any]]:
            calls = []
            for transport, (header, tensors) in zip(transports, messages, strict=True):
                limit_s = header.timeout_ms / 1000 + rpc_timeout_s()
                voice = voice_of(transport, header.caller, "Push", waits_for_others=True)
                calls.append(ServerCall(transport, "Push", header, tensors, limit_s, rpc_timeout_s(), voice))
            return results(calls)

        try:
            answers = send()
            if is_settled and not messages[0][0].is_pass:
                settle_again(transports, [header for header, _ in messages], send)
        except NotReadyError:  # servers of another run, which know nothing of it
            return
        except CommunicationError as error:
            if error.retryable:
                raise
            return  # a later life has come and gone
        if any(isinstance(reply, ps_pb2.PushReply.Header) and not reply.was_repeated for reply, _ in answers):
            _log.info("a push of this worker's former life had not reached all servers, and was sent again")

    def remove(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # the disk is full, or the folder gone
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.with_name(LEFT).touch()

    def _read(self) -> list[Message]:
        try:
            record = read_one(self._path, memoryview(self._path.read_bytes()), 0)
        except (OSError, JournalError):  # none, or half a one: its worker died while it wrote, before it sent anything
            return []
        messages = []
        for part in record.parts:
            header = ps_pb2.PushRequest.Header.FromString(part.header)
            if header.timeout_ms:
                header.timeout_ms = int(step_timeout_s() * 1000)
            tensors = part.tensors[: len(part.tensors) - len(header.pull_tables)]
            for name in ("pull_tables", "pull_only_read", "pull_formats", "want_rows", "want_dense"):
                header.ClearField(name)
            messages.append((header, tensors))
        return messages
