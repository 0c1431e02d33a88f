"""A server, seen from a worker that combines its gradients with others of its machine: pushes go by way of one of them.

That one is `fleet.ps.combine.combiner`, also for itself. Everything else goes to the server as ever.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fleet import _native
from fleet.errors import CommunicationError
from fleet.observe.waits.waiting import Awaited, workers_text
from fleet.ps.combine.combiner import LEAVE
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.answer_room import SPARE_BYTES, AnswerRoom
from fleet.ps.wire.messages import too_large
from fleet.ps.wire.plane_client import CONNECT_S, METHODS, PlaneAnswer, failed
from fleet.ps.wire.transport import Answer, Transport

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors

ASK_S = 2.0


class CombinedTransport(Transport):
    """One server: pushes go to worker `leader`, by the Unix socket of a name."""

    def __init__(self, inner: Transport, name: str, token: str, leader: int) -> None:
        self.endpoint = inner.endpoint
        self._inner = inner
        self._name, self._token = name, token.encode()
        self._leader = leader
        self._client: _native.PlaneClient | None = None
        self.rooms = {"Push": AnswerRoom()}
        self._is_closed = False
        self._lock = threading.Lock()

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        if method == "Leave":
            assert isinstance(header, ps_pb2.LeaveRequest.Header)
            self._ask(header.caller, LEAVE)
        if method != "Push":
            return self._inner.call(method, header, tensors, timeout_s)
        try:
            sent = self._connected().call(
                METHODS[method], header.SerializeToString(), tensors, self.rooms[method].size_bytes
            )
        except CommunicationError as error:
            return failed(error)
        except (ValueError, IndexError):
            return failed(too_large(f"{method}Request", tensors))
        except OSError as error:  # the system has no memory to share
            return failed(self.lost(method, str(error)))
        return PlaneAnswer(sent, self, method, timeout_s)  # type: ignore[return-value]  # all that is asked of a Future

    def awaited(self, caller: ps_pb2.Caller) -> Awaited | None:
        """Which workers of this machine keep a push from going out; None: none of them."""
        if not (missing := self._ask(caller, "")):
            return None
        what = f"the gradients of {workers_text(missing)}, to combine them with those of this machine"
        return Awaited(what, tuple(missing))

    def lost(self, method: str, why: str) -> CommunicationError:
        """The error of a push that did not reach the other worker; it may be made again."""
        error = CommunicationError(
            f"worker {self._leader}, which combines the gradients of this machine, cannot be reached for {method} "
            f"({why}); is it running?"
        )
        error.retryable = True
        return error

    def note_lost(self, joined_bytes: int) -> None:
        """Nothing is sent ahead on one machine."""

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()
        self._inner.close()

    def _ask(self, caller: ps_pb2.Caller, name: str) -> list[int]:
        """Say something to the worker that combines; whom it waits for."""
        header = ps_pb2.MeetRequest.Header(caller=caller, name=name)
        try:
            answer = self._connected().call(METHODS["Meet"], header.SerializeToString(), (), SPARE_BYTES)
            if answer.wait(ASK_S) and answer.state == 1:
                return list(ps_pb2.MeetReply.Header.FromString(answer.header).missing)
        except (CommunicationError, OSError):  # who pushes will be told
            pass
        return []

    def _connected(self) -> _native.PlaneClient:
        with self._lock:
            if self._is_closed:
                raise CommunicationError(f"server {self.endpoint}: the connection is closed")
            if self._client is None or not self._client.is_open:
                try:
                    self._client = _native.PlaneClient.unix(self._name, self._token, CONNECT_S, True)
                except (OSError, RuntimeError) as error:
                    raise self.lost("Push", str(error)) from None
            return self._client
