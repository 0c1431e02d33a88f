"""A server's data plane: native code takes pulls and pushes from the wire, and asks here what is Python's to decide.

A pull is answered without Python. A push comes here once, for its turn in the ledger and its step; its rows and dense
parameters are read, applied and answered by native code. Workers who meet are kept there without a thread. Whatever is
out of the ordinary is answered by the service, on a thread of its own, as if it had come by gRPC.
"""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from fleet import _native
from fleet.cores import num_cores
from fleet.errors import DeadlineError, FleetError
from fleet.net import Endpoint, local_addresses
from fleet.ps.job.patience import longest_wait_s
from fleet.ps.proto import ps_pb2
from fleet.ps.server.grpc_door import failure_of, most_connections
from fleet.ps.server.service import Service
from fleet.ps.server.strangers import Strangers
from fleet.ps.steps.core import EVERYBODY
from fleet.ps.steps.missing_workers import too_late
from fleet.ps.wire.callers import Caller, answering
from fleet.ps.wire.messages import decode
from fleet.ps.wire.plane_client import plane_name
from fleet.ps.wire.trust.plane_tls import PlaneTls
from fleet.ps.wire.trust.tls import Tls

_PUSH, _OTHER, _LOOK, _LATE, _MEET = range(5)
"""Why a call is handed over: csrc/plane/server.h."""
_NOBODY = -1
_FOREVER_MS, _KEPT_MS = 1 << 40, 300
MAX_SLOW_CALLS = 1024
"""A call beyond these is told to come again, as by gRPC: in a queue it would stand behind those that wait for it."""
MAX_CONNECTIONS = 16384
MOST_THREADS = 8
HELLO_S = 10.0
"""How long a client may take to say its token."""
SILENCE_S = 60.0
"""How long a client may stop inside a message, or leave an answer unread, before it is disconnected."""

_log = logging.getLogger(__name__)


class PlaneServer:
    """The data plane beside one service, which also takes calls from other machines, by TCP.

    Where the job speaks TLS, so does TCP; without a library that does, other machines keep to gRPC.
    """

    def __init__(self, service: Service, endpoint: Endpoint, token: str | None, tls: Tls | None) -> None:
        self._service = service
        self._core = service.core
        self._holdings: object = None
        self._budget = service.budget
        self._pool = ThreadPoolExecutor(MAX_SLOW_CALLS, thread_name_prefix="fleet-plane")
        self._places = threading.BoundedSemaphore(MAX_SLOW_CALLS)
        native_tls = None if tls is None else PlaneTls(tls).native
        is_open = tls is None or native_tls is not None
        num_kept_free = int(service.standby is not None)  # others may wait for who waits for the copy
        self._server = _native.PlaneServer(
            _names(endpoint),
            endpoint.host if is_open else "",
            (token or "").encode(),
            most_connections(MAX_CONNECTIONS),
            self._budget.native,
            longest_wait_s(),
            self._decide,
            Strangers().note,
            HELLO_S,
            SILENCE_S,
            native_tls,
            num_kept_free,
        )
        # Threads that Python knows already, unlike those of native code, which it would have to meet with every call.
        self._threads = [
            threading.Thread(target=self._server.run, args=(number,), name=f"fleet-plane-{number}", daemon=True)
            for number in range(min(MOST_THREADS, max(2, num_cores())) + num_kept_free)
        ]
        with self._core.changed:
            self._core.publish, self._core.copied = self._publish, self._server.copied
            self._core.data_port = self._server.port
            self._publish(None)
        service.state.stats.native = self._server.counts
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Take no more calls, answer those of a service that is closed, and drop those that wait otherwise."""
        with self._core.changed:
            self._core.publish = None
        self._pool.shutdown(wait=self._core.is_closed, cancel_futures=True)
        self._server.stop()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown(wait=True)

    def _publish(self, whom: int | None) -> None:
        """Under `changed`: tell native code what calls wait for."""
        core, holdings = self._core, self._core.state.holdings
        self._server.set_term(core.term)
        if holdings is None or core.is_copy:
            self._server.publish(0, False, False, b"", EVERYBODY)
            return
        if holdings is not self._holdings:
            ledger = core.state.ledger
            incarnations = [ledger.incarnation(worker) for worker in range(holdings.job.num_workers)]
            self._server.serve(holdings.native, core.state.instance, incarnations)
            self._holdings = holdings
        elif whom is not None and whom >= 0:
            self._server.set_incarnation(whom, core.state.ledger.incarnation(whom))
        version = core.state.rounds.version
        is_open = not core.is_closed and not core.is_moved and core.failure is None
        step = b""
        if holdings.job.mode == "sync":
            step = self._service.pushes.outcome(holdings, version).SerializeToString()
        if core.keeps_pushes:
            is_whole = core.state.rounds.squared_norm is not None
            said = self._service.pushes.collected(holdings).SerializeToString() if is_whole else b""
            self._server.collected(version + 1 if is_whole else 0, core.awaited, said)
        self._server.publish(version, is_open, holdings.is_started, step, _NOBODY if whom is None else whom)

    def _decide(self, reason: int, call: _native.PlaneCall) -> None:
        """Deal with a call. The threads of native code call this, and must not wait here."""
        standby = self._service.standby
        if standby is not None and call.method == "Follow" and standby.follows(call, is_late=reason != _OTHER):
            self._server.park_until_told(call, _KEPT_MS, 0)  # unless it is answered
            return
        if reason == _OTHER:
            self._submit(call)
            return
        with failing(call):
            if reason == _PUSH:
                self._push(call)
            elif reason == _MEET:
                self._meet(call)
            elif call.method == "Meet":
                self._look_at_meeting(call, is_late=reason == _LATE)
            else:
                self._look(call, is_late=reason == _LATE)

    def _push(self, call: _native.PlaneCall) -> None:
        taken = self._service.pushes.take_call(call)
        if taken is None:
            self._submit(call)
        elif taken.is_held:
            call.reply(taken.header, ())
        elif taken.timeout_ms or taken.record:
            timeout_ms = min(taken.timeout_ms or _FOREVER_MS, int(1000 * longest_wait_s()))
            how = taken.num_dropped, taken.record, taken.asks_for_all
            self._server.park(call, taken.version, timeout_ms, taken.header, *how)
        else:
            self._server.answer(call, taken.header)

    def _meet(self, call: _native.PlaneCall) -> None:
        """Have a worker come to a meeting, and wait without a thread."""
        header = ps_pb2.MeetRequest.Header.FromString(call.header)
        self._core.admit(header.caller.term)
        if self._service.meet_calls.would_block(header):
            self._submit(call)
            return
        visit = self._service.meet_calls.visit(call, header)
        if visit is not None:
            timeout_ms = min(header.timeout_ms, int(1000 * longest_wait_s()))
            self._server.park_until_told(call, timeout_ms, visit.number)

    def _look_at_meeting(self, call: _native.PlaneCall, *, is_late: bool) -> None:
        meetings = self._core.state.meetings
        try:
            if meetings.goes_on(call.note, is_late=is_late):
                self._server.park_again(call)
        except FleetError:
            meetings.forget_visit(call.note)
            raise

    def _look(self, call: _native.PlaneCall, *, is_late: bool) -> None:
        """See whether a call that waits may wait on."""
        core = self._core
        header: ps_pb2.PushRequest.Header | ps_pb2.PullRequest.Header
        if call.method == "Push":
            header = ps_pb2.PushRequest.Header.FromString(call.header)
            num_dropped, wants_dense = call.note, header.want_dense
        else:
            header = ps_pb2.PullRequest.Header.FromString(call.header)
            num_dropped, wants_dense = None, header.dense
        holdings = core.known(header.caller)
        if core.gate.is_closing:
            self._submit(call)
            return
        self._service.pushes.hear(header.caller)
        with core.changed:
            reached = core.reached(
                holdings, header.caller, call.awaited_version, wants_dense=wants_dense, num_dropped=num_dropped
            )
            if reached is None and is_late:
                raise DeadlineError(too_late(holdings, core.state.rounds, header.timeout_ms))
        self._server.park_again(call)

    def _submit(self, call: _native.PlaneCall) -> None:
        if not self._places.acquire(blocking=False):
            call.fail(_number(grpc.StatusCode.RESOURCE_EXHAUSTED), "too many calls wait; it is sent again")
            return
        try:
            self._pool.submit(self._by_the_book, call)
        except RuntimeError:  # it is shut down, or the system has no more threads
            self._places.release()
            is_over = self._core.is_closed
            code = grpc.StatusCode.ABORTED if is_over else grpc.StatusCode.UNAVAILABLE
            call.fail(_number(code), "the server is stopping" if is_over else "it has no thread for this call")

    def _by_the_book(self, call: _native.PlaneCall) -> None:
        """Have the service answer, as if the call had come by gRPC."""
        try:
            with failing(call), self._budget.account() as account:
                method, view = call.method, call.data
                account.adopt(call.hand_room_over())  # it lets go where the call waits for others
                account.take(view.nbytes)
                data = bytes(view)  # a copy: the caller could change shared memory while it is read
                header, tensors = decode(f"{method}Request", data)
                with answering(Caller(None, account)):
                    reply, rows = self._service.handle(method, header, tensors)
                account.let_go()  # native code holds what the answer takes
                call.reply(reply.SerializeToString(), rows)
        finally:
            self._places.release()


@contextmanager
def failing(call: _native.PlaneCall) -> Iterator[None]:
    """Send an error that is raised inside to the caller."""
    try:
        yield
    except Exception as error:
        code, text = failure_of(call.method, error)
        call.fail(_number(code), text)


def _number(code: grpc.StatusCode) -> int:
    number: int = code.value[0]
    return number


def _names(endpoint: Endpoint) -> list[str]:
    """The names of the data plane, one for each address by which workers may know the server."""
    is_any = endpoint.host in ("0.0.0.0", "::")
    return [plane_name(address, endpoint.port) for address in (local_addresses() if is_any else (endpoint.host,))]
