"""A way to a server that is no network: a push is written as a record of a journal, which is then replayed."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.ps.durable.recovery import Positions, Replay
from fleet.ps.journal.records import Kind, RecordPart, encode, read
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import Answer, LocalTransport

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors


class ReplayTransport(LocalTransport):
    """What else is asked for, the service answers."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._state = service.state
        self._replay = Replay(service.state, Positions([]))

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        if method != "Push":
            return super().call(method, header, tensors, timeout_s)
        answer: Answer = Future()
        try:
            written = b"".join(
                bytes(one) for one in encode(1, Kind.PUSH, [RecordPart(header.SerializeToString(), tensors)])
            )
            for record in read(Path("a journal"), memoryview(written)):
                self._replay.take(record)
            answer.set_result((ps_pb2.PushReply.Header(version=self._state.rounds.version), ()))
        except Exception as error:
            answer.set_exception(error)
        return answer
