"""How soon a call that waits for a server notices that it is back."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from google.protobuf.message import Message

from fleet.ps.proto import ps_pb2
from fleet.ps.wire import calls
from fleet.ps.wire.grpc_client import OPTIONS
from fleet.ps.wire.messages import Tensors
from fleet.ps.wire.status import unreachable
from fleet.ps.wire.transport import Answer, Transport


class Away(Transport):
    """A server that is reached at the last of so many attempts."""

    endpoint = "10.0.0.1:6170"

    def __init__(self, num_attempts: int) -> None:
        self.num_left = num_attempts

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:  # noqa: ARG002
        answer: Answer = Future()
        self.num_left -= 1
        if self.num_left:
            answer.set_exception(unreachable(self.endpoint, method, "connection refused"))
        else:
            answer.set_result((ps_pb2.PullReply.Header(), ()))
        return answer

    def close(self) -> None:
        """Nothing is open."""


def test_a_server_that_is_back_is_found_within_a_quarter_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it was away: a job that stands still waits for nothing else."""
    pauses: list[float] = []
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    monkeypatch.setattr(calls.ServerCall, "_pause", lambda _, pause_s: pauses.append(pause_s))
    calls.ServerCall(Away(20), "Pull", ps_pb2.PullRequest.Header(), (), 60.0, 60.0).result()
    assert len(pauses) == 19
    assert max(pauses) <= 0.25
    options = dict(OPTIONS)
    assert options["grpc.max_reconnect_backoff_ms"] <= 250
    assert options["grpc.min_reconnect_backoff_ms"] >= 2000, "a handshake on a busy machine must come to its end"
