"""Workers and servers over real gRPC: tensors, errors, tokens, deadlines, ports and the end of a server."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from typing import cast

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from numpy.typing import NDArray

from fleet.errors import CommunicationError, DeadlineError, EndpointError, FleetError, NotReadyError, UsageError
from fleet.net import LOOPBACK, Endpoint, Hold
from fleet.ps.proto import ps_pb2
from fleet.ps.server import grpc_server
from fleet.ps.server.grpc_server import GrpcServer
from fleet.ps.server.process import serve
from fleet.ps.wire import messages as wire
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.messages import Tensor, Tensors
from fleet.ps.wire.status import TOKEN_KEY
from fleet.ps.wire.transport import Answer, LocalTransport, Transport
from support.jobs import clean_environ
from support.plane.toy_service import FAILURES, ToyService
from support.processes import wait_until
from support.serving.serving import TOKEN, TOY, is_serving, reached, server_process, serving, status_of

LIMIT_S = 120.0


def push(transport: Transport, *tensors: NDArray[np.float32]) -> list[Tensor]:
    return list(transport.call("Push", ps_pb2.PushRequest.Header(), tensors, LIMIT_S).result(LIMIT_S)[1])


def pull(transport: Transport, version: int, wait_s: float = LIMIT_S, timeout_s: float = LIMIT_S) -> Answer:
    header = ps_pb2.PullRequest.Header(version=version, timeout_ms=int(wait_s * 1000))
    return transport.call("Pull", header, (), timeout_s)


def failure(transport: Transport, kind: str) -> BaseException | None:
    header = ps_pb2.SaveRequest.Header(folder=kind)
    return transport.call("Save", header, (), LIMIT_S).exception(LIMIT_S)


def test_large_tensors_come_back_as_they_went() -> None:
    tensors = [np.random.default_rng(0).random((n, 16), np.float32) for n in (300_000, 0, 1, 40_000)]
    with server_process(TOY) as server, reached(server.endpoint) as transport:
        for answer, tensor in zip(push(transport, *tensors), tensors, strict=True):
            array = np.frombuffer(answer, np.float32)
            assert array.ctypes.data % 8 == 0 or array.size == 0
            np.testing.assert_array_equal(array.reshape(tensor.shape), tensor)


def test_many_calls_at_once_are_answered_each_by_its_own() -> None:
    with serving(ToyService()) as server, reached(server.endpoint) as transport:
        tensors = [np.full(1000, number, np.float32) for number in range(64)]
        calls = [transport.call("Push", ps_pb2.PushRequest.Header(), (tensor,), LIMIT_S) for tensor in tensors]
        for call, tensor in zip(calls, tensors, strict=True):
            np.testing.assert_array_equal(np.frombuffer(call.result(LIMIT_S)[1][0], np.float32), tensor)


@pytest.mark.parametrize("kind", sorted(FAILURES))
def test_an_error_arrives_with_its_class_and_the_endpoint(kind: str) -> None:
    sent = FAILURES[kind]
    with serving(ToyService()) as server, reached(server.endpoint) as transport:
        error = failure(transport, kind)
        assert isinstance(error, FleetError)
        assert str(error).startswith(f"server {server.endpoint}: ")
        assert "\n" not in str(error)
        if kind == "bug":
            assert type(error) is CommunicationError
            assert "Save failed with ZeroDivisionError: division by zero; the server's log has the trace" in str(error)
        elif kind == "unicode":
            assert type(error) is UsageError
            assert "Schlüssel 鍵 Schlüssel" in str(error)
        else:
            assert type(error) is (UsageError if kind == "type" else type(sent))
            assert str(error).endswith(str(sent))
            assert getattr(error, "retryable", False) == (kind == "retryable")
        push(transport)  # the connection is none the worse for it


def test_local_and_remote_transports_give_the_same() -> None:
    service = ToyService()
    tensor = np.arange(10, dtype=np.float32)
    with serving(service) as server, reached(server.endpoint) as remote:
        for transport in (LocalTransport(service), remote):
            np.testing.assert_array_equal(np.frombuffer(push(transport, tensor)[0], np.float32), tensor)
            assert isinstance(failure(transport, "not ready"), NotReadyError)
            assert isinstance(pull(transport, 10**6, wait_s=0.01).exception(LIMIT_S), DeadlineError)


@pytest.mark.parametrize(("token", "what"), [(None, "no token"), ("wrong", "another token"), (TOKEN + "x", "another")])
def test_a_call_without_the_token_is_refused(token: str | None, what: str) -> None:
    with serving(ToyService()) as server:
        with reached(server.endpoint, token) as transport:
            with pytest.raises(
                CommunicationError, match=f"{server.endpoint}: this process has {what}.*FLEET_JOB_TOKEN"
            ):
                push(transport, np.ones(100_000, np.float32))
        assert is_serving(server.endpoint, token)  # which a probe learns, and nothing else


def test_a_stranger_cannot_keep_the_threads_busy() -> None:
    """Whoever has no token is refused before the body of the request, which may never come, is waited for."""
    never = threading.Event()
    with serving(ToyService()) as server, grpc.insecure_channel(str(server.endpoint)) as channel:
        call: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(f"/{wire.SERVICE}/Push")

        def body() -> Iterator[bytes]:
            never.wait(LIMIT_S)
            yield b""

        try:
            for started in [call.future(body(), metadata=((TOKEN_KEY, "wrong"),)) for _ in range(20)]:
                assert status_of(started.exception(LIMIT_S))[0] is grpc.StatusCode.UNAUTHENTICATED
        finally:
            never.set()


def test_a_server_without_a_token_takes_everybody() -> None:
    with serving(ToyService(), token=None) as server:
        for token in (None, "any"):
            with reached(server.endpoint, token) as transport:
                push(transport)


def test_a_server_that_is_down_is_named_and_worth_another_try() -> None:
    with Hold.any_port() as hold, reached(hold.endpoint) as transport:
        error = transport.call("Push", ps_pb2.PushRequest.Header(), (), LIMIT_S).exception(LIMIT_S)
        assert isinstance(error, CommunicationError)
        assert error.retryable
        assert f"server {hold.endpoint}: cannot be reached for Push (Connection refused" in str(error)
        server = GrpcServer(ToyService(), hold.endpoint, TOKEN, is_held=True)
        server.start()
        try:
            wait_until(
                lambda: transport.call("Push", ps_pb2.PushRequest.Header(), (), LIMIT_S).exception(LIMIT_S) is None,
                LIMIT_S,
                "it",
            )
        finally:
            server.stop(1)


def test_a_server_that_dies_ends_the_calls_that_wait_for_it() -> None:
    with server_process(TOY) as server, reached(server.endpoint) as transport:
        push(transport)
        waiting = pull(transport, 10**6)
        server.process.kill()
        error = waiting.exception(LIMIT_S)
        assert isinstance(error, CommunicationError)
        assert error.retryable
        assert f"server {server.endpoint}" in str(error)


def test_a_deadline_says_what_was_waited_for() -> None:
    with serving(ToyService()) as server, reached(server.endpoint) as transport:
        with pytest.raises(DeadlineError, match=f"server {server.endpoint}: no answer to Pull within 0.2 s"):
            pull(transport, 7, wait_s=1, timeout_s=0.2).result(LIMIT_S)
        with pytest.raises(DeadlineError, match=f"server {server.endpoint}: waited 50 ms for version 7"):
            pull(transport, 7, wait_s=0.05).result(LIMIT_S)


def test_waiting_pulls_leave_room_for_the_push_they_wait_for() -> None:
    with serving(ToyService()) as server, reached(server.endpoint) as transport:
        waiting = [pull(transport, 1) for _ in range(200)]
        push(transport)
        for call in waiting:
            call.result(LIMIT_S)


def test_too_many_calls_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "MAX_CALLS", 5)
    service = ToyService()
    with serving(service) as server, reached(server.endpoint) as transport:
        waiting = [pull(transport, 1) for _ in range(8)]
        wait_until(lambda: sum(call.done() for call in waiting) == 4, LIMIT_S, "refusals")
        for call in filter(Future.done, waiting):
            error = call.exception()
            assert isinstance(error, CommunicationError)
            assert error.retryable
        service.close()  # ends those that wait
        for call in waiting:
            assert call.exception(LIMIT_S) is not None
        push(transport)


def test_a_message_over_the_limit_is_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ToyService()) as server, reached(server.endpoint) as transport:
        monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 1000)
        with pytest.raises(
            UsageError, match="a Push request of 0 MiB and 1 tensors is over the limit.*smaller batches"
        ):
            push(transport, np.ones(1000, np.float32))


def test_a_closed_transport_says_so() -> None:
    service = ToyService()
    with serving(service) as server:
        transport = GrpcTransport(str(server.endpoint), TOKEN)
        push(transport)
        waiting = pull(transport, 10**6)
        transport.close()
        transport.close()
        with pytest.raises(CommunicationError, match="closed"):
            waiting.result(LIMIT_S)
        with pytest.raises(CommunicationError, match="the connection is closed"):
            push(transport)
        service.close()  # ends what waits there


def test_a_second_server_on_a_port_is_refused() -> None:
    with serving(ToyService()) as server:
        second = GrpcServer(ToyService(), server.endpoint, TOKEN)
        with pytest.raises(
            EndpointError, match=f"port {server.endpoint.port} of 127.0.0.1 is in use by another process"
        ):
            second.start()
        done = subprocess.run(
            [sys.executable, "-m", "fleet.ps.server", "--endpoint", str(server.endpoint)],
            env=clean_environ(),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 2
        assert done.stderr.startswith(f"server: port {server.endpoint.port} of 127.0.0.1 is in use")
        assert done.stderr.count("\n") == 1


def test_a_port_that_was_served_can_be_served_again() -> None:
    with serving(ToyService()) as server, reached(server.endpoint) as transport:
        push(transport)
    again = GrpcServer(ToyService(), server.endpoint, TOKEN)
    again.start()
    with reached(again.endpoint) as transport:
        push(transport)
    again.stop(1)


def test_other_machines_are_not_served_without_a_token() -> None:
    for host in ("192.0.2.7", "0.0.0.0", "::"):
        with pytest.raises(UsageError, match="set FLEET_JOB_TOKEN.*allow_anonymous=True .--allow_anonymous."):
            GrpcServer(ToyService(), Endpoint(host, 6170), None)
    with pytest.raises(UsageError, match="FLEET_JOB_TOKEN"):
        GrpcServer(ToyService(), Endpoint("192.0.2.7", 6170), "")
    for token, allowed in (("secret", False), (None, True)):
        GrpcServer(ToyService(), Endpoint("192.0.2.7", 6170), token, allow_anonymous=allowed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_without_cutting_what_runs(number: signal.Signals) -> None:
    def num_loads() -> str:
        header, _ = transport.call("Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S).result(LIMIT_S)
        return cast(ps_pb2.StatsReply.Header, header).stats

    with server_process(TOY) as server, reached(server.endpoint) as transport:
        waiting = pull(transport, 10**6)
        running = transport.call("Load", ps_pb2.LoadRequest.Header(folder="long"), (), LIMIT_S)
        wait_until(lambda: num_loads() == "1", LIMIT_S, "the load to begin")
        server.process.send_signal(number)
        assert running.result(LIMIT_S)[0] == ps_pb2.LoadReply.Header(rows=7)
        with pytest.raises(CommunicationError, match="the server stops"):
            waiting.result(LIMIT_S)
        assert server.finish() == (0, "")


def test_a_service_that_has_finished_ends_its_server() -> None:
    with server_process(TOY) as server, reached(server.endpoint) as transport:
        transport.call("Leave", ps_pb2.LeaveRequest.Header(), (), LIMIT_S).result(LIMIT_S)
        assert server.finish() == (0, "")


def test_serving_outside_the_main_thread(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_JOB_ID", "test")  # the port is held here, as by fleetrun
    service = ToyService()
    asked: list[str] = []
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, partial(asked.append, name))
    with Hold.any_port() as hold:
        thread = threading.Thread(target=serve, args=(service, hold.endpoint, TOKEN))
        thread.start()
        assert is_serving(hold.endpoint)
        service.finished.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
        assert capfd.readouterr().out == f"Server listening on {hold.endpoint}\n"
    assert not asked, "what is garbage is for the program to say, not for its server"


def test_a_call_that_does_not_end_does_not_keep_the_server() -> None:
    release = threading.Event()

    class Stuck:
        def handle(self, method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:  # noqa: ARG002
            release.wait(LIMIT_S)
            raise NotReadyError("late")

    server = GrpcServer(Stuck(), Endpoint(LOOPBACK, 0), TOKEN)
    server.start()
    try:
        with reached(server.endpoint) as transport:
            waiting = pull(transport, 1)
            wait_until(
                lambda: "fleet-server_0" in {thread.name for thread in threading.enumerate()}, LIMIT_S, "the call"
            )
            assert not server.stop(0.2)
            assert isinstance(waiting.exception(LIMIT_S), CommunicationError)
    finally:
        release.set()
