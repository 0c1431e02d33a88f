"""The pushes of one machine's workers to one server, on their way: kept until all have come, then sent as one."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from fleet.errors import CommunicationError, DeadlineError, FleetError, UsageError
from fleet.observe.waits.waiting import workers_text
from fleet.ps.combine.combining import Combined
from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.wire.calls import Call
from fleet.ps.wire.status import code_of, one_line

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet import _native
    from fleet.ps.job.spec import JobSpec
    from fleet.ps.proto import ps_pb2
    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Transport

# On top of what a server itself may wait before it answers.
GRACE_S = 10.0


class Kept(NamedTuple):
    """A worker's push that waits for those of the others."""

    call: _native.PlaneCall
    header: ps_pb2.PushRequest.Header
    since: float

    @property
    def late_at(self) -> float:
        """When its worker would be told that it waited too long."""
        return self.since + self.header.timeout_ms / 1000


class Lane:
    """One server's. `take` and `leave` never wait; `run` is what a thread of the lane's own does."""

    def __init__(self, transport: Transport, server: int, members: Collection[int], job: JobSpec) -> None:
        self._transport, self._server, self._job = transport, server, job
        self._members = frozenset(members)
        self._changed = threading.Condition()
        self._present = set(members)
        self._waiting: dict[int, Kept] = {}
        self._under_way: dict[int, Kept] = {}
        self._done: dict[int, int] = {}  # the sequence number, by worker, of the last push that was answered
        self._is_closed = False

    def take(self, call: _native.PlaneCall, header: ps_pb2.PushRequest.Header) -> bool:
        """Keep a worker's push; False if it is to be sent alone: it was sent before, with those of the others.

        It has come again, then, for the answer was lost, and the server knows it by its number.
        """
        worker = header.caller.worker
        with self._changed:
            if worker not in self._members or not header.timeout_ms:
                raise UsageError(f"worker {worker} does not combine its gradients with this one's")
            if header.sequence <= self._done.get(worker, 0):
                return False
            kept = Kept(call, header, time.monotonic())
            known = self._under_way.get(worker)
            if known is not None and known.header.sequence == header.sequence:
                self._under_way[worker] = kept
            else:
                self._waiting[worker] = kept
            self._changed.notify_all()
        return True

    def leave(self, worker: int) -> None:
        """A worker makes no more steps."""
        with self._changed:
            self._present.discard(worker)
            self._changed.notify_all()

    def missing(self) -> list[int]:
        """The workers whose pushes are waited for by others."""
        with self._changed:
            return sorted(self._present - self._waiting.keys()) if self._waiting and not self._under_way else []

    def wait_until_left(self, worker: int, timeout_s: float) -> list[int]:
        """Wait until all but one worker have left; those who have not."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._present <= {worker}, timeout_s)
            return sorted(self._present - {worker})

    def close(self) -> None:
        """Send no more; whoever waits is told."""
        with self._changed:
            self._is_closed = True
            kept = [*self._waiting.values(), *self._under_way.values()]
            self._waiting.clear()
            self._changed.notify_all()
        fail(kept, FleetError("the worker that combines the gradients of this machine has ended"), self._transport)

    def run(self) -> None:
        """Send whatever is complete, until the lane is closed."""
        while (pushes := self._next()) is not None:
            try:
                self._send(pushes)
            except Exception as error:
                with self._changed:
                    failed, self._under_way = self._under_way, {}
                fail(failed.values(), error, self._transport)

    def send_alone(self, call: _native.PlaneCall, header: ps_pb2.PushRequest.Header) -> None:
        """Send a push as it is, and answer it. This waits."""
        try:
            reply, tensors = self._call(header, call.tensors)
            call.reply(reply.SerializeToString(), tensors)
        except Exception as error:
            fail([Kept(call, header, 0.0)], error, self._transport)

    def _next(self) -> list[Kept] | None:
        """The pushes of a step, in the order of the workers, when all have come; None when the lane is closed."""
        with self._changed:
            while not self._is_closed:
                if self._waiting and self._present <= self._waiting.keys():
                    self._under_way, self._waiting = self._waiting, {}
                    return [self._under_way[worker] for worker in sorted(self._under_way)]
                self._wait()
        return None

    def _wait(self) -> None:
        """Until something happens, or those who wait have waited too long."""
        if not self._waiting:
            self._changed.wait()
            return
        left_s = min(kept.late_at for kept in self._waiting.values()) - time.monotonic()
        if left_s > 0:
            self._changed.wait(left_s)
        else:
            self._give_up()

    def _give_up(self) -> None:
        kept, self._waiting = list(self._waiting.values()), {}
        since = min(one.since for one in kept)
        missing = sorted(self._present - {one.header.caller.worker for one in kept})
        text = (
            f"waited {time.monotonic() - since:.0f} s for step {kept[0].header.step}: no gradients from "
            f"{workers_text(missing)}, to combine them with those of this machine. Is it slow or gone? "
            "FLEET_STEP_TIMEOUT_S sets how long to wait"
        )
        fail(kept, DeadlineError(text), self._transport)

    def _send(self, pushes: list[Kept]) -> None:
        one = Combined([(kept.header, kept.call.tensors) for kept in pushes], self._job, self._server)
        reply, tensors = self._call(one.header, one.tensors)
        with self._changed:
            done, self._under_way = self._under_way, {}  # a call that came again has taken the place of the first
            self._done.update((worker, kept.header.sequence) for worker, kept in done.items())
        for place, worker in enumerate(sorted(done)):
            done[worker].call.reply(reply.SerializeToString(), one.share(place, tensors))

    def _call(self, header: ps_pb2.PushRequest.Header, tensors: Tensors) -> tuple[Message, Tensors]:
        limit_s = header.timeout_ms / 1000 + max(GRACE_S, rpc_timeout_s())
        return Call(self._transport, "Push", header, tensors, limit_s, rpc_timeout_s()).result()


def fail(kept: Collection[Kept], error: Exception, transport: Transport) -> None:
    """Tell those who wait for an answer of an error; they name the server themselves."""
    known = error if isinstance(error, FleetError) else FleetError(f"{type(error).__name__}: {error}")
    if isinstance(known, CommunicationError):
        known.retryable = False  # it has been tried long enough
    number: int = code_of(known).value[0]
    text = one_line(str(known)).removeprefix(f"server {transport.endpoint}: ")
    for one in kept:
        one.call.fail(number, text)
