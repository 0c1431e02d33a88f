"""Calls that were given up: each ends its wait on the server at once, and takes no room from those that train."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import grpc
import numpy as np
import pytest

from fleet.errors import CommunicationError, DeadlineError
from fleet.ps.job import patience
from fleet.ps.proto import ps_pb2
from fleet.ps.server.grpc_server import MAX_CALLS, GrpcServer
from fleet.ps.server.service import Service
from fleet.ps.wire import messages as wire
from fleet.ps.wire.callers import wait_for
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.status import TOKEN_KEY
from support.plane.fuzz_requests import JOB, NUM_DENSE
from support.processes import wait_until
from support.serving.serving import TOKEN, reached, serving

LIMIT_S = 60.0
FOR_EVER_MS = 2**32 - 1
NUM_CALLERS = 1100
NUM_CHANNELS = 10
TWO = replace(JOB, num_workers=2, mode="sync", tables=())


def declared(transport: GrpcTransport) -> list[ps_pb2.Caller]:
    """The two workers of a job, which has begun."""
    callers = [ps_pb2.Caller(worker=worker, incarnation=1) for worker in (0, 1)]
    for caller in callers:
        header = ps_pb2.DeclareRequest.Header(caller=caller, job=TWO.to_json())
        transport.call("Declare", header, (), LIMIT_S).result(LIMIT_S)
    values = [np.zeros(NUM_DENSE, np.float32)]
    transport.call("Start", ps_pb2.StartRequest.Header(caller=callers[0]), values, LIMIT_S).result(LIMIT_S)
    return callers


def train_a_step(transport: GrpcTransport, callers: list[ps_pb2.Caller], step: int) -> None:
    """Push the gradients of both workers, each of which waits for the other."""
    grads = [np.ones(NUM_DENSE, np.float32)]
    pushes = [
        transport.call(
            "Push",
            ps_pb2.PushRequest.Header(
                caller=caller, sequence=step + 1, step=step, dense_lrs=[0.1], timeout_ms=int(LIMIT_S * 1000)
            ),
            grads,
            LIMIT_S,
        )
        for caller in callers
    ]
    for push in pushes:
        header, _ = push.result(LIMIT_S)
        assert isinstance(header, ps_pb2.PushReply.Header)
        assert header.version == step + 1


@pytest.fixture
def server() -> Iterator[GrpcServer]:
    service = Service()
    with serving(service) as started:
        yield started
        service.close()


def request_of(method: str, caller: ps_pb2.Caller) -> bytes:
    """One that waits for what never comes."""
    if method == "Pull":
        pull = ps_pb2.PullRequest.Header(caller=caller, version=1000, timeout_ms=FOR_EVER_MS)
        return wire.encode("PullRequest", pull, ())
    meet = ps_pb2.MeetRequest.Header(caller=caller, name="never", is_here=True, timeout_ms=FOR_EVER_MS)
    return wire.encode("MeetRequest", meet, ())


@pytest.mark.parametrize("method", ["Pull", pytest.param("Meet", marks=pytest.mark.exhaustive)])
def test_training_goes_on_at_once_after_a_thousand_callers_have_given_up(server: GrpcServer, method: str) -> None:
    with ExitStack() as stack:
        transport = stack.enter_context(reached(server.endpoint))
        callers = declared(transport)
        train_a_step(transport, callers, 0)
        apart = [("grpc.use_local_subchannel_pool", 1)]  # a connection each
        channels = [
            stack.enter_context(grpc.insecure_channel(str(server.endpoint), options=apart)) for _ in range(NUM_CHANNELS)
        ]
        request = request_of(method, callers[0])
        metadata = ((TOKEN_KEY, TOKEN),)
        stubs: list[grpc.UnaryUnaryMultiCallable[bytes, bytes]] = [
            channel.unary_unary(f"/{wire.SERVICE}/{method}") for channel in channels
        ]
        calls = [
            stubs[number % NUM_CHANNELS].future(request, timeout=LIMIT_S, metadata=metadata)
            for number in range(NUM_CALLERS)
        ]
        refused = NUM_CALLERS - (MAX_CALLS - 1)
        wait_until(lambda: sum(call.done() for call in calls) >= refused, LIMIT_S, "the server to be full")
        assert sum(call.done() for call in calls) == refused
        for call in calls:
            call.cancel()
        given_up_at = time.monotonic()
        assert not server._running.wait(LIMIT_S), "calls still wait in the service"
        freed_s = time.monotonic() - given_up_at
        train_a_step(transport, callers, 1)
        print(f"{MAX_CALLS - 1} calls of {method} left the server {freed_s:.2f} s after they had been given up")


@pytest.mark.parametrize("how", ["deadline", "connection"])
def test_a_wait_ends_when_its_caller_is_gone(server: GrpcServer, how: str) -> None:
    with reached(server.endpoint) as transport:
        callers = declared(transport)
        gone = GrpcTransport(str(server.endpoint), TOKEN)
        header = ps_pb2.PullRequest.Header(caller=callers[0], version=1000, timeout_ms=FOR_EVER_MS)
        answer = gone.call("Pull", header, (), 0.3 if how == "deadline" else LIMIT_S)
        if how == "connection":
            wait_until(lambda: server._running.wait(0) == {"Pull"}, LIMIT_S, "the call")
            gone.close()
        assert isinstance(answer.exception(LIMIT_S), DeadlineError if how == "deadline" else CommunicationError)
        assert not server._running.wait(LIMIT_S)
        gone.close()
        train_a_step(transport, callers, 0)


def test_a_push_whose_caller_has_gone_is_taken_all_the_same(server: GrpcServer) -> None:
    with reached(server.endpoint) as transport:
        callers = declared(transport)
        grads = [np.ones(NUM_DENSE, np.float32)]
        header = ps_pb2.PushRequest.Header(
            caller=callers[0], sequence=1, dense_lrs=[0.1], timeout_ms=FOR_EVER_MS, step=0
        )
        answer = transport.call("Push", header, grads, 0.3)
        assert isinstance(answer.exception(LIMIT_S), DeadlineError)
        assert not server._running.wait(LIMIT_S)
        again = transport.call("Push", header, grads, LIMIT_S)
        header.caller.CopyFrom(callers[1])
        transport.call("Push", header, grads, LIMIT_S).result(LIMIT_S)
        reply, _ = again.result(LIMIT_S)
        assert isinstance(reply, ps_pb2.PushReply.Header)
        assert reply.was_repeated
        assert reply.version == 1


def test_a_server_does_not_wait_as_long_as_a_caller_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LONGEST_WAIT_S", 0.1)
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "0.1")
    changed = threading.Condition()
    with changed:
        assert not wait_for(changed, lambda: False, FOR_EVER_MS / 1000)
    service = Service()
    with serving(service) as server, reached(server.endpoint) as transport:
        callers = declared(transport)
        header = ps_pb2.PullRequest.Header(caller=callers[0], version=1000, timeout_ms=FOR_EVER_MS)
        with pytest.raises(DeadlineError, match=r"waited 0.2 s for step 0"):
            transport.call("Pull", header, (), LIMIT_S).result(LIMIT_S)


def test_the_longest_wait_is_an_hour_or_two_steps() -> None:
    assert patience.longest_wait_s() == 3600.0


def test_the_longest_wait_follows_the_time_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "7200")
    assert patience.longest_wait_s() == 14400.0
