"""A service on a port, by gRPC: every call proves that it knows the job's token, and every error reaches its caller."""

from __future__ import annotations

import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from fleet.errors import EndpointError, FleetError, UsageError
from fleet.net import Endpoint, Hold, is_loopback, listen, own_address
from fleet.ps.keepalive import server_options
from fleet.ps.presence import Caller, Departures, answering
from fleet.ps.status import MARK_KEY, TOKEN_KEY, code_of, one_line
from fleet.ps.tls import Tls
from fleet.ps.transport import Handler
from fleet.ps.wire import MAX_MESSAGE_BYTES, METHODS, SERVICE, decode, encode

# In synchronous training a Pull waits for the slowest worker and keeps a thread while it does, so this many workers can
# wait and their Pushes, which end the waiting, still find a thread. Threads are only made when all others are busy.
# Whoever is beyond is told to come again, instead of standing in a queue behind those that wait for it.
MAX_CALLS = 1024

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 1),  # passes the hold on the port, docs/adr/0002-ports.md
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    *server_options(),
    ("grpc.server_handshake_timeout_ms", 10_000),
)
_log = logging.getLogger(__name__)


def check_exposure(endpoint: Endpoint, token: str | None, allow_anonymous: bool) -> None:
    """UsageError if other machines could reach a server that asks nobody for a token."""
    if not (token or allow_anonymous or is_loopback(own_address(endpoint.host))):
        raise UsageError(
            f"a server on {endpoint} would serve everybody who can reach this address; set FLEET_JOB_TOKEN to the same "
            "secret on every process, or pass allow_anonymous=True (--allow_anonymous)"
        )


class GrpcServer:
    """A server on an endpoint; port 0 lets the operating system choose.

    `is_held` says that the launcher of the job holds the port. Otherwise the server holds it itself, so that a second
    one on the same port is refused.
    """

    def __init__(
        self,
        service: Handler,
        endpoint: Endpoint,
        token: str | None,
        *,
        allow_anonymous: bool = False,
        is_held: bool = False,
        tls: Tls | None = None,
    ) -> None:
        check_exposure(endpoint, token, allow_anonymous)
        self.endpoint = endpoint
        self._is_held = is_held
        self._tls = tls
        self._hold: Hold | None = None
        self._running = _Running()
        self._departures = Departures()
        self._health = health.HealthServicer()
        self._pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="fleet-server")
        guard: list[grpc.ServerInterceptor] = [_Guard(token)] if token else []
        self._server = grpc.server(
            self._pool, interceptors=guard, options=OPTIONS, maximum_concurrent_rpcs=MAX_CALLS - 1
        )
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(_answer(service, name, self._running, self._departures))
            for name in METHODS
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    @property
    def address(self) -> Endpoint:
        """The endpoint with the address that is listened on: `0.0.0.0` is every address of this machine."""
        return Endpoint(own_address(self.endpoint.host), self.endpoint.port)

    def start(self) -> None:
        """Take the port and serve; EndpointError if the port cannot be had."""
        if not self._is_held:
            self._hold = Hold(self.endpoint)
            self.endpoint = self._hold.endpoint
        try:
            if self._tls is None:
                self._server.add_insecure_port(str(self.address))
            else:
                self._server.add_secure_port(str(self.address), self._tls.for_server())
        except RuntimeError:
            self._free()
            listen(self.endpoint).close()  # says why not
            raise EndpointError(f"cannot serve on {self.address}; choose another port") from None
        self._departures.start()
        self._server.start()
        self._health.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace_s: float) -> bool:
        """Take no more calls, give running ones `grace_s` to end, then drop them; returns whether all have ended.

        After False a thread may still be busy inside the service.
        """
        deadline = time.monotonic() + grace_s
        self._health.enter_graceful_shutdown()
        self._server.stop(grace_s).wait(grace_s + 1)
        left = self._running.wait(max(0.2, deadline - time.monotonic()))
        if left:
            _log.warning("server %s stops while calls still run: %s", self.endpoint, ", ".join(sorted(left)))
        self._free(wait=not left)
        return not left

    def _free(self, wait: bool = True) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=True)
        self._departures.close()
        if self._hold is not None:
            self._hold.close()
            self._hold = None


class _Running:
    """The calls inside the service."""

    def __init__(self) -> None:
        self._methods: dict[str, int] = dict.fromkeys(METHODS, 0)
        self._change = threading.Condition()

    @contextmanager
    def call(self, method: str) -> Iterator[None]:
        with self._change:
            self._methods[method] += 1
        try:
            yield
        finally:
            with self._change:
                self._methods[method] -= 1
                if not self._methods[method]:
                    self._change.notify_all()

    def wait(self, timeout_s: float) -> set[str]:
        """Wait until there are none; returns the methods of those that are left."""
        with self._change:
            self._change.wait_for(lambda: not any(self._methods.values()), timeout_s)
            return {method for method, count in self._methods.items() if count}


class _Guard(grpc.ServerInterceptor):
    """Refuses every call, also to health and to methods that do not exist, that does not carry the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._refuse = {text: _refusal(f"this process has {text}") for text in ("no token", "another token")}

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        token = dict(handler_call_details.invocation_metadata).get(TOKEN_KEY, "")
        given = token if isinstance(token, bytes) else token.encode(errors="replace")
        if hmac.compare_digest(given, self._token):
            return continuation(handler_call_details)
        return self._refuse["another token" if given else "no token"]


def _refusal(text: str) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler that refuses at once: as a receiver of a stream it does not wait for the request, nor takes it in."""

    def refuse(_requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
        _abort(
            context, grpc.StatusCode.UNAUTHENTICATED, f"{text}; set FLEET_JOB_TOKEN to the same value on every process"
        )

    return grpc.stream_unary_rpc_method_handler(refuse)


def _answer(
    service: Handler, method: str, running: _Running, departures: Departures
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    """What answers one method."""

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        caller = Caller(departures)
        if not context.add_callback(caller.leave):  # called at the end of the call, whatever ends it
            caller.leave()
        with running.call(method), answering(caller):
            try:
                header, tensors = decode(f"{method}Request", request)
                return encode(f"{method}Reply", *service.handle(method, header, tensors))
            except FleetError as error:
                code, text = code_of(error), str(error)
            except Exception as error:
                _log.exception("%s failed", method)
                code = grpc.StatusCode.INTERNAL
                text = f"{method} failed with {type(error).__name__}: {error}; the server's log has the trace"
        _abort(context, code, text)

    return answer


def _abort(context: grpc.ServicerContext, code: grpc.StatusCode, text: str) -> NoReturn:
    """End a call with an error of our own; does not return."""
    context.set_trailing_metadata(((MARK_KEY, "1"),))
    context.abort(code, one_line(text))
