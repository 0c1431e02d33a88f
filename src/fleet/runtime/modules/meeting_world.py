"""The world of the workers of a durable job: they meet on server 0, where one that was started again is let in.

A Gloo group cannot be joined again by one worker alone. What is said in meetings stays, and a worker that runs its
script from the top is told what it was told before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from fleet.collective.world.arrival import refuse_differing
from fleet.collective.world.worlds import World
from fleet.errors import MovedError, NotSupportedError, UsageError
from fleet.jobfiles.terms import own_term
from fleet.ps.job.patience import step_timeout_s
from fleet.ps.proto import ps_pb2
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.wire.calls import ServerCall

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Transport
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.roles import Identity

# How much is said at one meeting; more needs several.
PIECE_BYTES = 1 << 20
# As long as torch waits in a process group.
TIMEOUT_S = 1800.0

_FUNCTIONS: dict[dist.ReduceOp.RedOpType, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
}


class EarlyWorker:
    """A worker that meets others before `fleet.init_worker()`."""

    def __init__(self, who: Identity, connect: Callable[[], Sequence[Transport]]) -> None:
        self.worker = who.index
        self.num_workers = who.num_workers
        self._connect = connect
        self.transports = connect()

    def caller(self, server: int) -> ps_pb2.Caller:  # noqa: ARG002 - it knows nothing of any of them
        """Who calls: a worker that has not joined the servers."""
        return ps_pb2.Caller(worker=self.worker, term=own_term())

    def arrive(self) -> None:
        """Return at once: it has sent nothing."""

    def ask_first(
        self, method: str, header: Callable[[], Message], timeout_s: float, patience_s: float
    ) -> tuple[Any, Tensors]:
        """Call server 0, whichever that is now."""
        while True:
            call = ServerCall(self.transports[0], method, header(), (), timeout_s, patience_s)
            try:
                return call.result()
            except MovedError:
                self.close()
                self.transports = self._connect()

    def close(self) -> None:
        """Close the connections."""
        for transport in self.transports:
            transport.close()


class MeetingWorld(World):
    """The workers of a durable job.

    `client` gives the worker's client, once it has joined the servers; before that, `connect` makes what reaches them.
    """

    def __init__(
        self,
        who: Identity,
        progress: ScriptProgress,
        client: Callable[[], Client | None],
        connect: Callable[[], Sequence[Transport]],
    ) -> None:
        self.rank, self.size = who.index, who.num_workers
        self._who = who
        self._progress = progress
        self._client = client
        self._connect = connect
        self._early: EarlyWorker | None = None

    def gather_bytes(self, own: bytes) -> list[bytes]:
        first, *more = _pieces(own)
        texts = self._gathering().gather_bytes(json.dumps(len(more)).encode() + b"\n" + first)
        found = [text.partition(b"\n") for text in texts]
        told = [[body] for _, _, body in found]
        for number in range(max(int(head) for head, _, _ in found)):
            piece = more[number] if number < len(more) else b""
            for parts, text in zip(told, self._gathering().gather_bytes(piece), strict=True):
                parts.append(text)
        return [b"".join(parts) for parts in told]

    def gather_at(self, topic: str, own: bytes) -> list[bytes]:
        """What every worker gave under a name, which stands for the same call in every life of a worker."""
        return self._gathering().gather_at(topic, own, self._progress)

    def knows(self, ahead: int) -> bool:
        """Whether this worker was told, in a former life, what the `ahead`th call from here will give."""
        return self._gathering().knows(ahead)

    def reduce(self, values: torch.Tensor, op: dist.ReduceOp.RedOpType) -> None:
        function = _FUNCTIONS.get(op)
        if function is None:
            raise NotSupportedError(f"workers of a durable job reduce by sum, min and max, not by {op}")
        told = self.gather_bytes(values.reshape(-1).view(torch.uint8).numpy().tobytes())
        if len({len(one) for one in told}) > 1:
            raise UsageError(f"workers gave values of different sizes: {[len(one) for one in told]} bytes")
        total: torch.Tensor | None = None
        for one in told:  # in the order of the workers: the same bits everywhere
            theirs = torch.from_numpy(np.frombuffer(one, np.uint8).copy()).view(values.dtype).view(values.shape)
            total = theirs if total is None else function(total, theirs)
        assert total is not None
        values.copy_(total)

    def close(self) -> None:
        if self._early is not None:
            self._early.close()
            self._early = None

    def _gathering(self) -> WorkerMeetings:
        attendee: Client | EarlyWorker | None = self._client()
        if attendee is None:
            attendee = self._early = self._early or EarlyWorker(self._who, self._connect)
        gathering = WorkerMeetings(attendee, "util", TIMEOUT_S, self._progress)
        gathering.purpose = "what all workers do together (fleet.util)"
        return gathering


class ServedArrival:
    """The workers beside servers come to a call before any of them exchanges something in it.

    Server 0 knows who has left, and in sync mode who has made a step instead, so that nobody waits in vain.
    """

    def __init__(self, client: Callable[[], Client | None]) -> None:
        """`client` gives the worker's client while it is with the servers; before and after, nobody is waited for."""
        self._client = client
        self._number = 0

    def come(self, call: str) -> None:
        """Return when every worker has come to `call`; an error that names who has gone on, or left, without it."""
        if (client := self._client()) is None:
            return
        meeting = WorkerMeetings(client, "arrival", step_timeout_s())
        refuse_differing(meeting.meet(str(self._number), call, call, is_between_steps=True))
        self._number += 1


def _pieces(data: bytes) -> list[bytes]:
    """The pieces of some data: at least one, the last of which may be short."""
    return [data[begin : begin + PIECE_BYTES] for begin in range(0, max(1, len(data)), PIECE_BYTES)]
