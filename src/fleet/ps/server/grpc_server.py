"""A service on a port, by gRPC: every call proves that it knows the job's token, and every error reaches its caller."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from fleet.errors import EndpointError
from fleet.net import Endpoint, Hold, listen, own_address
from fleet.ps.server.grpc_door import SizeGuard, TokenGuard, abort, failure_of, most_connections
from fleet.ps.server.strangers import Strangers
from fleet.ps.wire.budget import MessageBudget
from fleet.ps.wire.callers import Caller, Departures, answering
from fleet.ps.wire.keepalive import server_options
from fleet.ps.wire.messages import MAX_MESSAGE_BYTES, METHODS, SERVICE, decode, encode
from fleet.ps.wire.traced import request_span
from fleet.ps.wire.transport import Handler
from fleet.ps.wire.trust.own_token import check_exposure
from fleet.ps.wire.trust.tls import Tls

# In synchronous training a Pull waits for the slowest worker and keeps a thread meanwhile. So this many workers can
# wait, and their Pushes, which end the waiting, still find a thread. Threads are only made when all others are busy. A
# call beyond that is told to come again, instead of queueing behind those that wait for it.
MAX_CALLS = 1024

# Beyond its own limit gRPC drops calls at random, and callers are not told that they may come again.
MAX_PENDING = 16384
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 1),  # passes the hold on the port, docs/adr/0002-ports.md
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    *server_options(),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", MAX_CALLS // 4),  # of one connection; more wait at the caller
    ("grpc.server.max_pending_requests", MAX_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
    ("grpc.max_connection_idle_ms", 1_800_000),  # a worker connects again without a word
)
MAX_CONNECTIONS = 4096
_log = logging.getLogger(__name__)


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
        for name in ("", SERVICE):
            self._health.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
        self._pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="fleet-server")
        self._strangers = Strangers()
        self._budget = budget = getattr(service, "budget", None) or MessageBudget()
        guards: list[grpc.ServerInterceptor] = [TokenGuard(token, self._strangers, self._probed)] if token else []
        self._server = grpc.server(
            self._pool,
            interceptors=[*guards, SizeGuard(budget)],
            options=(*OPTIONS, ("grpc.max_allowed_incoming_connections", most_connections(MAX_CONNECTIONS))),
            maximum_concurrent_rpcs=MAX_CALLS - 1,
        )
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(_answer(service, name, self._running, self._departures, budget))
            for name in METHODS
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    @property
    def address(self) -> Endpoint:
        """The endpoint with the address that is listened on: `0.0.0.0` is every address of this machine."""
        return Endpoint(own_address(self.endpoint.host), self.endpoint.port)

    def refused(self) -> dict[str, int]:
        """How many calls were refused so far: without the token, or without memory for their message."""
        return {"token": self._strangers.num_refused, "memory": self._budget.num_refused}

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
        for name in ("", SERVICE):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def _probed(self, context: grpc.ServicerContext) -> health_pb2.HealthCheckResponse:
        """Whether it serves, for those without the token."""
        return self._health.Check(health_pb2.HealthCheckRequest(service=SERVICE), context)

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
        self._strangers.close()
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


def _answer(
    service: Handler, method: str, running: _Running, departures: Departures, budget: MessageBudget
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    """The function that answers one method."""

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        with running.call(method), budget.account() as account:
            caller = Caller(departures, account)
            if not context.add_callback(caller.leave):  # called when the call ends, for whatever reason
                caller.leave()
            try:
                account.take(len(request))
                header, tensors = decode(f"{method}Request", request)
                with answering(caller):
                    with request_span(method, header):
                        reply = service.handle(method, header, tensors)
                    return encode(f"{method}Reply", *reply)
            except Exception as error:
                failure = failure_of(method, error)
        return abort(context, *failure)

    return answer
