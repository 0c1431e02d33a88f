"""A service without tables, to test what lies between a worker and a server; also a program that serves it.

Push answers with the tensors it got. Pull waits until `version` Pushes have come. Save fails as its folder says. Load
of the folder "long" goes on for half a second after the server was told to stop; Stats says how many of these run.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from fleet import env, errors
from fleet.net import Endpoint
from fleet.ps.proto import ps_pb2
from fleet.ps.server.process import serve
from fleet.ps.wire.messages import Tensors

if TYPE_CHECKING:
    from google.protobuf.message import Message

_STUCK_S = 120.0
RETRYABLE = errors.CommunicationError("comes back soon")
RETRYABLE.retryable = True
FAILURES: dict[str, BaseException] = {
    "usage": errors.UsageError("table 'ads' has width 8, got 4; declare it with 8"),
    "type": errors.UsageTypeError("keys must be int64, got float32"),
    "deadline": errors.DeadlineError("waited 3 s for worker 1, which has pushed 4 of 5 steps"),
    "not ready": errors.NotReadyError("no tables yet; declare them first"),
    "communication": errors.CommunicationError("worker 1 went away"),
    "retryable": RETRYABLE,
    "not supported": errors.NotSupportedError("a device of kind 'tpu' is not supported"),
    "bug": ZeroDivisionError("division\nby zero"),
    "checkpoint": errors.CheckpointError("the piece 'a.safetensors' is damaged"),
    "unicode": errors.UsageError("Schlüssel 鍵 " * 1000),
}


class ToyService:
    """See the module."""

    def __init__(self) -> None:
        self.finished = threading.Event()
        self._is_closed = False
        self._num_pushes = 0
        self._num_loads = 0
        self._change = threading.Condition()

    def handle(self, method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
        handler: Callable[[Message, Tensors], tuple[Message, Tensors]] | None
        handler = getattr(self, f"_{method.lower()}", None)
        return handler(header, tensors) if handler else (getattr(ps_pb2, f"{method}Reply").Header(), ())

    def _push(self, _header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
        with self._change:
            self._num_pushes += 1
            self._change.notify_all()
            return ps_pb2.PushReply.Header(version=self._num_pushes), tensors

    def _pull(self, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
        wanted = cast(ps_pb2.PullRequest.Header, header)
        with self._change:
            is_there = self._change.wait_for(
                lambda: self._num_pushes >= wanted.version or self._is_closed, wanted.timeout_ms / 1000
            )
        if self._is_closed:
            raise errors.CommunicationError("the server stops")
        if not is_there:
            raise errors.DeadlineError(f"waited {wanted.timeout_ms} ms for version {wanted.version}")
        return ps_pb2.PullReply.Header(version=self._num_pushes), tensors

    def _save(self, header: Message, _tensors: Tensors) -> tuple[Message, Tensors]:
        raise FAILURES[cast(ps_pb2.SaveRequest.Header, header).folder]

    def _load(self, header: Message, _tensors: Tensors) -> tuple[Message, Tensors]:
        if cast(ps_pb2.LoadRequest.Header, header).folder == "long":
            with self._change:
                self._num_loads += 1
                self._change.wait_for(lambda: self._is_closed, _STUCK_S)
            time.sleep(0.5)  # the work that is left
            self._num_loads -= 1
        return ps_pb2.LoadReply.Header(rows=7), ()

    def _stats(self, _header: Message, _tensors: Tensors) -> tuple[Message, Tensors]:
        return ps_pb2.StatsReply.Header(stats=str(self._num_loads)), ()

    def _leave(self, _header: Message, _tensors: Tensors) -> tuple[Message, Tensors]:
        self.finished.set()
        return ps_pb2.LeaveReply.Header(), ()

    def close(self) -> None:
        with self._change:
            self._is_closed = True
            self._change.notify_all()


if __name__ == "__main__":
    serve(ToyService(), Endpoint.parse(sys.argv[1]), env.FLEET_JOB_TOKEN.get())
