"""What all servers write into one folder: begun, waited for, and described with the moment that it is of."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fleet.errors import CheckpointError, DeadlineError
from fleet.ps.proto import ps_pb2
from fleet.ps.together.cutting import NUM_ATTEMPTS, Cut, CutLostError, cut
from fleet.ps.worker.calling.client import Client
from fleet.runtime.saved.increments import Increment

# Writing a hundred gigabytes takes a while.
SAVE_TIMEOUT_S = 3600.0
# How long a server may wait for the end of its writing before it answers how far it is.
_ASK_S = 1.0

WAS_STARTED_AGAIN = "was started again while it wrote"
"""In the error if a process of a durable job was: the job goes on without that checkpoint."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """What servers have written."""

    accounts: Sequence[tuple[str, str]]
    """Each server's account and name."""
    versions: tuple[int, ...]
    """How many steps (sync) or pushes (otherwise) of each server are in it."""
    steps: tuple[int, ...]
    """How many steps of each worker are in it."""
    cut: Cut | None = None

    @property
    def version(self) -> int:
        """The highest version of a server."""
        return max(self.versions)

    def read(self, read: Callable[[str, str], Iterable[T]]) -> tuple[T, ...]:
        """What `read` makes of the account of each server, one after the other."""
        return tuple(one for account in self.accounts for one in read(*account))


class ServerWrites:
    """What the servers write into a folder: begun when this is made, which returns when all have copied."""

    def __init__(
        self,
        client: Client,
        writing: Path,
        *,
        background: bool = False,
        values_only: bool = False,
        cut: Cut | None = None,
        increment: Increment | None = None,
    ) -> None:
        self.increment = increment
        """What the save builds on, where it is part of a chain."""
        self._client = client
        self._writing = writing
        self._values_only = values_only
        self._cut = cut
        self._replies = self._ask(background, 0.0)
        self._versions = [reply.version for reply in self._replies]
        versions = set(self._versions)
        if len(versions) > 1 and client.job.mode == "sync":
            raise CheckpointError(f"the servers were at different steps when they were saved: {sorted(versions)}")

    def _ask(self, background: bool, wait_s: float) -> list[ps_pb2.SaveReply.Header]:
        client = self._client
        answers = client.ask(
            "Save",
            lambda server: ps_pb2.SaveRequest.Header(
                caller=client.caller(server),
                folder=str(self._writing.absolute()),
                values_only=self._values_only,
                in_background=background,
                timeout_ms=int(wait_s * 1000),
                cut=0 if self._cut is None else self._cut.name,
                tracked=None if self.increment is None or self._cut is not None else self.increment.tracked,
            ),
            timeout_s=SAVE_TIMEOUT_S,
        )
        replies: list[ps_pb2.SaveReply.Header] = [reply for reply, _ in answers]
        for transport, reply in zip(client.transports, replies, strict=True):
            if reply.lost:
                raise CutLostError(f"server {transport.endpoint}: {reply.lost}")
        return replies

    def wait(self, timeout_s: float = SAVE_TIMEOUT_S, moved: Callable[[], None] = lambda: None) -> Written:
        """What was written, when all is; `moved` is called when there are more files than before.

        DeadlineError when for `timeout_s` no server has written one.
        """
        since = time.monotonic()
        while not all(reply.is_written for reply in self._replies):
            known = [reply.num_files for reply in self._replies]
            self._replies = self._ask(True, _ASK_S)
            self._refuse_later()
            if [reply.num_files for reply in self._replies] != known:
                since = time.monotonic()
                moved()
            elif time.monotonic() - since > timeout_s:
                slow = [str(server) for server, reply in enumerate(self._replies) if not reply.is_written]
                raise DeadlineError(f"waited {timeout_s:g} s for server {', '.join(slow)} to write")
        transports = self._client.transports
        return Written(
            [(reply.pieces, f"server {one.endpoint}") for one, reply in zip(transports, self._replies, strict=True)],
            tuple(reply.version for reply in self._replies),
            tuple(max(each) for each in zip(*(reply.steps for reply in self._replies), strict=True)),
            self._cut,
        )

    def _refuse_later(self) -> None:
        """CheckpointError if a server has copied again, which is later than the others did."""
        for server, (reply, version) in enumerate(zip(self._replies, self._versions, strict=True)):
            if reply.version != version:
                raise CheckpointError(
                    f"server {server} {WAS_STARTED_AGAIN}, and has gone on since: what it would write is not of the "
                    "moment of the others"
                )


def write_one_moment(
    client: Client, writing: Path, *, values_only: bool, increment: Increment | None = None
) -> Written:
    """Let all servers write what they hold at one moment, while others train on.

    In sync mode this worker is between two steps, and so are the servers. In the other modes they make a cut.
    """
    if client.job.mode == "sync":
        return ServerWrites(client, writing, values_only=values_only, increment=increment).wait()
    for attempt in range(1, NUM_ATTEMPTS + 1):
        made = cut(client, want_dense=values_only, tracked=None if increment is None else increment.tracked)
        try:
            return ServerWrites(client, writing, values_only=values_only, cut=made).wait()
        except CutLostError as error:
            if attempt == NUM_ATTEMPTS:
                raise CheckpointError(f"{writing} could not be written, {NUM_ATTEMPTS} times: {error}") from None
            _log.info("a save begins again: %s", error)
    raise AssertionError
