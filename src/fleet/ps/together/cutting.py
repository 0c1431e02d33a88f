"""A worker's side of a cut: one moment of all servers, while training goes on (docs/adr/0020-one-cut.md)."""

import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from fleet.errors import CheckpointError, MovedError
from fleet.observe.waits.waiting import Awaited, LongWait, workers_text
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.calls import ServerCall, outcomes
from fleet.ps.wire.messages import Tensors
from fleet.ps.wire.taken_pushes import TakenPushes, joined_all
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.calling.requests import GRACE_S

# How long pushes that some servers have may take to reach the others; servers wait a little longer.
PUSHES_S = 25.0
# How long the copy of a server may take.
COPY_S = 600.0
# How long to wait for another save that writes no file.
IDLE_S = 60.0
NUM_ATTEMPTS = 5
_WAIT_S = 1.0
_PAUSE_S = 0.1
_DROP_S = 5.0

Phase = ps_pb2.CutRequest.Phase

_log = logging.getLogger(__name__)


class CutLostError(CheckpointError):
    """A server has lost a cut, or never knew it; another attempt may succeed."""


@dataclass(frozen=True)
class Cut:
    """What all servers hold of one moment; `Save` has them write it."""

    name: int
    dense: Sequence[Tensors] = ()
    """The dense groups of each server, if they were asked for."""


def cut(client: Client, *, want_dense: bool = False, tracked: ps_pb2.Tracked | None = None) -> Cut:
    """Have all servers keep what they hold at one moment: each push is there on all of them, or on none.

    `tracked`: of a save that is part of a chain.
    """
    for attempt in range(1, NUM_ATTEMPTS + 1):
        server_set = client.server_set
        try:
            return _Cutting(client, want_dense, tracked).make()
        except MovedError:
            client.follow(server_set)
        except CutLostError as error:
            if attempt == NUM_ATTEMPTS:
                raise CheckpointError(f"there was no moment for a save, {NUM_ATTEMPTS} times: {error}") from None
            _log.info("a save begins again: %s", error)
    raise AssertionError


class _Cutting:
    """One attempt at a cut."""

    def __init__(self, client: Client, want_dense: bool, tracked: ps_pb2.Tracked | None) -> None:
        self._client = client
        self._tracked = tracked
        self._want_dense = want_dense
        self._name = secrets.randbits(63) + 1

    def make(self) -> Cut:
        try:
            return self._take(self._hold_all())
        except BaseException:
            self._drop()
            raise

    def _hold_all(self) -> list[TakenPushes]:
        """Shut the doors of all servers; what any of them has taken of each worker.

        Server 0 comes first, so that one of two that cut at once gets all servers. While another save keeps a server
        busy, no door is shut.
        """
        others = range(1, self._client.num_servers)
        num_files, since = -1, time.monotonic()
        with LongWait(f"worker {self._client.worker}") as wait:
            while True:
                replies = self._ask(Phase.HOLD, [0], wait_s=_WAIT_S)
                if replies[0].is_done:
                    replies += self._ask(Phase.HOLD, others)
                busy = [(server, reply) for server, reply in enumerate(replies) if not reply.is_done]
                if not busy:
                    return joined_all(reply.taken for reply in replies)
                self._drop()
                server, reply = busy[0]
                text = f"another save on server {self._client.transports[server].endpoint}: {reply.busy}"
                if reply.num_files != num_files:
                    num_files, since = reply.num_files, time.monotonic()
                elif time.monotonic() - since > IDLE_S:
                    raise CheckpointError(f"waited {IDLE_S:g} s for {text}; is its disk in order?")
                if wait.is_due:
                    wait.tell(Awaited(text, is_limited=True))
                time.sleep(_PAUSE_S)
                self._name += 1  # the former cut was dropped

    def _take(self, wanted: Sequence[TakenPushes]) -> Cut:
        """Have all servers copy when they have what the cut holds."""
        client, deadline = self._client, time.monotonic() + PUSHES_S
        dense: list[Tensors] = [()] * client.num_servers
        pending, missing, held_s, in_place = list(range(client.num_servers)), set[int](), 0.0, list[int]()
        while pending:
            if missing and time.monotonic() > deadline:
                raise CheckpointError(
                    f"waited {PUSHES_S:g} s for a push of {workers_text(sorted(missing))} that other servers have to "
                    f"reach server {client.transports[pending[0]].endpoint}; is it gone? Training goes on: save again"
                )
            answers = self._answers(Phase.TAKE, pending, wanted=wanted, wait_s=_WAIT_S)
            missing.clear()
            for server, (reply, tensors) in zip(list(pending), answers, strict=True):
                if reply.lost:
                    raise CutLostError(f"server {client.transports[server].endpoint}: {reply.lost}")
                missing.update(reply.missing)
                if reply.is_done:
                    pending.remove(server)
                    dense[server], held_s = tensors, max(held_s, reply.held_s)
                    in_place += [] if reply.is_copied else [server]
        if in_place:
            _log.warning("servers %s have no memory for a copy: pushes wait until all is written", in_place)
        _log.info("a cut of %d servers: pushes waited for %.0f ms at most", client.num_servers, 1000 * held_s)
        return Cut(self._name, dense)

    def _drop(self) -> None:
        """Let the servers go on at once; those that cannot be reached do so by themselves."""
        header = self._header(Phase.DROP)
        calls = [
            ServerCall(transport, "Cut", header(server), (), _DROP_S, 0.0)
            for server, transport in enumerate(self._client.transports)
        ]
        outcomes(calls)

    def _ask(self, phase: Phase, servers: Sequence[int], wait_s: float = 0.0) -> list[ps_pb2.CutReply.Header]:
        return [reply for reply, _ in self._answers(phase, servers, wait_s=wait_s)]

    def _answers(
        self, phase: Phase, servers: Sequence[int], *, wanted: Sequence[TakenPushes] = (), wait_s: float = 0.0
    ) -> list[tuple[Any, Tensors]]:
        return self._client.ask(
            "Cut", self._header(phase, wanted, wait_s), timeout_s=wait_s + GRACE_S + COPY_S, servers=servers
        )

    def _header(self, phase: Phase, wanted: Sequence[TakenPushes] = (), wait_s: float = 0.0) -> Any:
        def header(server: int) -> Message:
            return ps_pb2.CutRequest.Header(
                caller=self._client.caller(server),
                cut=self._name,
                phase=phase,
                taken=[one.message() for one in wanted],
                timeout_ms=int(wait_s * 1000),
                want_dense=self._want_dense and phase == Phase.TAKE,
                tracked=self._tracked if phase == Phase.TAKE else None,
            )

        return header
