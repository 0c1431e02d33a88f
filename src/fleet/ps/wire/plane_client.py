"""A server's data plane, seen from its callers: Pull, Push, Meet and Follow go there, everything else by gRPC.

On one machine that is a Unix socket, and messages lie in memory that both processes share; between machines it is TCP,
with TLS if the job speaks it. Whenever the data plane cannot be reached, gRPC takes its place: nothing but speed
depends on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.message import Message

from fleet import _native, env
from fleet.errors import CommunicationError, DeadlineError, FleetError
from fleet.net import Endpoint, is_loopback, resolve
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.messages import Tensor, Tensors, too_large
from fleet.ps.wire.status import error_of_number, unreachable
from fleet.ps.wire.transport import Answer, TakesAhead, Transport, failed
from fleet.ps.wire.trust.plane_tls import PlaneTls


def plane_name(address: str, port: int) -> str:
    """The abstract name of its Unix socket, by the address and the port of its gRPC endpoint.

    Such names are known in one network namespace only, as ports are: another machine's server is never found by it.
    """
    return f"fleet-plane-{address}:{port}"


METHODS = {"Pull": 1, "Push": 2, "Meet": 3, "Follow": 4}
_REPLIES: dict[str, Any] = {
    "Pull": ps_pb2.PullReply.Header,
    "Push": ps_pb2.PushReply.Header,
    "Meet": ps_pb2.MeetReply.Header,
    "Follow": ps_pb2.FollowReply.Header,
}

_WAITING, _REPLY, _ERROR, _LOST = range(4)
"""What became of a call: csrc/plane/client.h."""

CONNECT_S = 2.0
PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
"""How long to wait after a failed connection before the next attempt; a silent port doubles it, unless gRPC was lost
too: then there is no wait once gRPC is answered again."""

_FOREVER_S = 1e9
_log = logging.getLogger(__name__)


SPARE_BYTES = 4096
_BYTES_A_TENSOR = 32


class AnswerRoom:
    """The room for answers to one kind of call; it grows at once, and shrinks slowly."""

    def __init__(self) -> None:
        self._recent_bytes = 0

    @property
    def size_bytes(self) -> int:
        """What the next call asks for."""
        return self._recent_bytes + SPARE_BYTES

    def note(self, tensors: Tensors) -> None:
        """Note how large an answer was: the next call asks for as much."""
        size = sum(len(one) if isinstance(one, bytes) else one.nbytes for one in tensors)
        size += _BYTES_A_TENSOR * len(tensors)
        self._recent_bytes = max(size + size // 8, self._recent_bytes - self._recent_bytes // 64)


class PlaneAnswer:
    """The answer to one call: as much of a Future as callers need."""

    def __init__(self, native: _native.PlaneAnswer, transport: PlaneTransport, method: str, timeout_s: float) -> None:
        self._native = native
        self._transport = transport
        self._method = method
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._joined_bytes = native.joined_bytes

    def done(self) -> bool:
        """Whether it has come, or never will."""
        return self._native.state != _WAITING

    def result(self, timeout: float | None = None) -> tuple[Any, Tensors]:
        """Wait for it; TimeoutError if `timeout` is over, DeadlineError if the time of the call itself is."""
        left_s = self._deadline - time.monotonic()
        if not self._native.wait(max(0.0, min(left_s, _FOREVER_S if timeout is None else timeout))):
            if timeout is not None and timeout < left_s:
                raise TimeoutError
            raise DeadlineError(
                f"server {self._transport.endpoint}: no answer to {self._method} within {self._timeout_s:g} s"
            )
        native = self._native
        if native.state == _REPLY:
            header = _REPLIES[self._method].FromString(native.header)
            tensors = native.tensors
            self._transport.rooms[self._method].note(tensors)
            return header, tensors
        self._transport.note_lost(self._joined_bytes)
        self._joined_bytes = 0
        if native.state == _ERROR:
            raise error_of_number(native.code, native.text, self._transport.endpoint)
        raise unreachable(self._transport.endpoint, self._method, native.text)

    @property
    def sent_ns(self) -> int:
        """While a trace is recorded: when the call was made."""
        return self._native.sent_ns

    @property
    def came_ns(self) -> int:
        """While a trace is recorded: when the answer came, 0 until then."""
        return self._native.came_ns

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for it; the error that it is, if it is one."""
        try:
            self.result(timeout)
        except FleetError as error:
            return error
        return None

    def add_done_callback(self, function: Callable[[Any], object]) -> None:
        """Call a function, on a thread of its own, when the answer has come, or is late."""

        def wait() -> None:
            self._native.wait(max(0.0, self._deadline - time.monotonic()))
            function(self)

        threading.Thread(target=wait, name="fleet-answer", daemon=True).start()


class PlaneTransport(Transport, TakesAhead):
    """One server: its data plane, and `inner`, by gRPC, for the rest."""

    def __init__(self, inner: Transport, token: str | None, tls: PlaneTls | None) -> None:
        self.endpoint = inner.endpoint
        self._inner = inner
        self._token = (token or "").encode()
        self._where = Endpoint.parse(inner.endpoint)
        self._forced = env.FLEET_LOCAL_TRANSPORT.get()
        self._tls = tls
        self._has_told = False
        self._port = 0
        self._client: _native.PlaneClient | None = None
        self._not_before = 0.0
        self._pause_s = PAUSE_S
        self._is_cut_off = False
        self._is_closed = False
        self._lock = threading.Lock()
        self.rooms = {method: AnswerRoom() for method in METHODS}
        """By method: the room for answers to come."""
        self._is_tcp = False
        self._claims: list[tuple[Tensor, int, int]] = []
        self._joined_bytes = 0

    def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:
        number = METHODS.get(method)
        client = None if number is None else self._connected()
        ahead = self._claimed(tensors) if method == "Push" and self._claims else ()
        if number is None or client is None:
            answer = self._inner.call(method, header, tensors, timeout_s)
            if method in ("Declare", "Pull", "Push", "Follow"):
                answer.add_done_callback(self._learn)
            return answer
        try:
            sent = client.call(number, header.SerializeToString(), tensors, self.rooms[method].size_bytes, ahead)
        except (ValueError, IndexError):
            return failed(too_large(f"{method}Request", tensors))
        except OSError:  # the system has no memory to share
            return self._inner.call(method, header, tensors, timeout_s)
        self._joined_bytes += sent.joined_bytes
        return PlaneAnswer(sent, self, method, timeout_s)  # type: ignore[return-value]  # all that is asked of a Future

    @property
    def takes_ahead(self) -> bool:
        client = self._client
        return client is not None and self._is_tcp and client.is_open

    def send_ahead(self, pieces: Sequence[memoryview | bytes]) -> int:
        client = self._client
        return 0 if client is None else client.send_ahead(pieces)

    def claim(self, tensor: Tensor, begin: int, number: int) -> None:
        self._claims.append((tensor, begin, number))

    def forget_ahead(self, number: int) -> None:
        client = self._client
        if client is not None:
            client.forget_ahead(number)

    def settle_ahead(self) -> int:
        joined, self._joined_bytes = self._joined_bytes, 0
        return joined

    def note_lost(self, joined_bytes: int) -> None:
        """Note a call that failed: it is sent again in full, so these bytes went ahead in vain."""
        self._joined_bytes -= joined_bytes

    def _claimed(self, tensors: Tensors) -> list[tuple[int, int, int]]:
        """The claims about a push, by the numbers of its tensors; they are for one attempt only."""
        claims, self._claims = self._claims, []
        numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
        return [(numbers[id(tensor)], begin, part) for tensor, begin, part in claims if id(tensor) in numbers]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()
        self._inner.close()

    def _connected(self) -> _native.PlaneClient | None:
        """The connection, made anew if it was lost; None if there is none now."""
        client = self._client
        if client is not None and client.is_open:
            return client
        with self._lock:
            if self._is_closed or time.monotonic() < self._not_before:
                return None
            if self._client is None or not self._client.is_open:
                self._client = self._connect()
            if self._client is None:
                self._not_before = time.monotonic() + self._pause_s
            elif self._has_told:
                self._has_told = False
                _log.warning("server %s: its data plane is there again", self.endpoint)
            return self._client

    def _connect(self) -> _native.PlaneClient | None:
        """Connect by a Unix socket on this machine, else by TCP if the server has said where; or in the forced way."""
        if self._forced == "GRPC":
            return None
        addresses = [self._where.host] if _is_address(self._where.host) else list(resolve(self._where.host))
        if self._forced != "TCP":
            for address in addresses:
                try:
                    self._is_tcp = False
                    name = plane_name(address, self._where.port)
                    return _native.PlaneClient.unix(name, self._token, CONNECT_S, self._forced != "UNIX")
                except (OSError, RuntimeError):
                    continue
        if self._forced in (None, "TCP") and self._port and addresses:
            port, pause_s, self._pause_s = self._port, self._pause_s, PAUSE_S
            try:
                self._is_tcp = True
                return self._connect_tcp(addresses[0])
            except TimeoutError:  # the caller has waited for it, and would again
                self._pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                self._tell(f"port {port} is silent; is it behind a firewall?")
            except OSError:
                pass
            except RuntimeError as error:
                self._tell(str(error))
            self._port = 0  # until the server says so again, by gRPC
        return None

    def _connect_tcp(self, address: str) -> _native.PlaneClient | None:
        if self._tls is None:
            return _native.PlaneClient.tcp(address, self._port, self._token, CONNECT_S)
        return self._tls.connect(self._where.host, address, self._port, self._token, CONNECT_S)

    def _tell(self, why: str) -> None:
        """Warn once until it is there again: training goes on, and nobody would know why it is slow."""
        if not self._has_told:
            self._has_told = True
            _log.warning(
                "server %s: no data plane (%s): pulls and pushes go by gRPC, which is slower", self.endpoint, why
            )

    def _learn(self, done: Any) -> None:
        """Take from an answer by gRPC where the server's data plane is; after a cut, try it with the next call."""
        error = done.exception()
        if error is None:
            self._port = done.result()[0].data_port
            if self._is_cut_off:
                self._is_cut_off, self._not_before, self._pause_s = False, 0.0, PAUSE_S
        elif isinstance(error, DeadlineError) or (isinstance(error, CommunicationError) and not error.is_answer):
            self._is_cut_off = True


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdigit() or ":" in host or (is_loopback(host) and host != "localhost")
