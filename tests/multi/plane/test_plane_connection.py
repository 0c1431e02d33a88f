"""The data plane itself: connections that are lost or refused, calls that are late, memory, and the end of a server."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from fleet.errors import CommunicationError, DeadlineError, UsageError
from fleet.net import LOOPBACK, Endpoint
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire import plane_client
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.wire.plane_client import PlaneTransport
from fleet.ps.wire.transport import Answer
from support.plane.plane import PLANES, Served, plane_transport, served
from support.plane.plane_worker import KEYS, LIMIT_S, ONES, WAIT_MS, Worker, job
from support.plane.proxy import cutting
from support.processes import wait_until
from support.serving.serving import TOKEN


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one


def test_grpc_takes_over_and_a_server_that_comes_back_is_found(plane: Served) -> None:
    worker = Worker(plane.transport(), job())
    transport = worker.transport
    assert isinstance(transport, PlaneTransport)
    first = worker.rows()
    lost = worker.begin("Pull", worker.pull_header(version=9, timeout_ms=WAIT_MS), timeout_s=LIMIT_S)
    plane.stop_plane()
    error = lost.exception(LIMIT_S)
    assert isinstance(error, CommunicationError)
    assert error.retryable
    np.testing.assert_array_equal(worker.rows(), first)
    assert transport._client is None
    plane.start_plane()
    wait_until(lambda: worker.rows() is not None and transport._client is not None, LIMIT_S, "the data plane")
    np.testing.assert_array_equal(worker.rows(), first)


def test_the_data_plane_is_taken_again_when_the_network_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A port that was silent while gRPC was, too, is no firewall's: it is not left alone for a minute."""
    monkeypatch.setattr(plane_client, "CONNECT_S", 0.1)
    monkeypatch.setattr(plane_client, "PAUSE_S", LIMIT_S)
    with served("TCP") as one, ExitStack() as stack:
        assert one.grpc is not None
        assert one.plane is not None
        places = (one.grpc.address, Endpoint(LOOPBACK, one.plane._server.port))
        network = [stack.enter_context(cutting(place, lambda: None)) for place in places]
        one.service.core.data_port = network[1].endpoint.port
        transport = plane_transport(GrpcTransport(str(network[0].endpoint), TOKEN), "TCP")
        stack.callback(transport.close)
        worker = Worker(transport, job())
        worker.rows()
        client = transport._client
        assert client is not None
        for proxy in network:
            proxy.hold()
        client.close()
        for _ in range(3):
            assert worker.begin("Pull", worker.pull_header(), timeout_s=0.2).exception(LIMIT_S) is not None
        assert transport._client is None
        for proxy in network:
            proxy.go_on()
        wait_until(lambda: worker.rows() is not None and transport._client is not None, LIMIT_S / 2, "the data plane")
    told = [line for line in caplog.messages if "data plane" in line]
    assert ["is silent" in told[0], "there again" in told[-1], len(told)] == [True, True, 2]


def test_a_call_survives_the_loss_of_its_connection(plane: Served) -> None:
    worker = Worker(plane.transport(), job())
    first, header = worker.rows(), worker.push_header()
    take = plane.service.pushes.take_call
    taken = threading.Event()

    def once(call: Any) -> Any:
        answer = take(call)
        plane.service.pushes.take_call = take  # type: ignore[method-assign]
        worker.transport._client.close()  # type: ignore[attr-defined]
        taken.set()
        return answer

    plane.service.pushes.take_call = once  # type: ignore[method-assign]
    reply: Any = ServerCall(worker.transport, "Push", header, (KEYS, ONES), LIMIT_S, LIMIT_S).result()[0]
    assert taken.is_set()
    assert reply.was_repeated
    np.testing.assert_array_equal(worker.rows(), first - 0.5)


def test_another_token_gets_nothing_from_the_plane(plane: Served) -> None:
    assert plane.grpc is not None
    Worker(plane.transport(), job())
    inner = GrpcTransport(str(plane.grpc.endpoint), "wrong", plane.tls)
    stranger = plane_transport(inner, plane.kind, "wrong", plane.tls)
    try:
        with pytest.raises(CommunicationError, match=r"another token.*FLEET_JOB_TOKEN"):
            stranger.call("Pull", ps_pb2.PullRequest.Header(), (), LIMIT_S).result(LIMIT_S)
    finally:
        stranger.close()


def test_a_request_beyond_all_bounds_is_refused(plane: Served) -> None:
    worker = Worker(plane.transport(), job())
    worker.rows()
    error = worker.error("Push", worker.push_header(), *[np.zeros(1 << 20, np.uint8)] * 1025)
    assert isinstance(error, UsageError)
    assert "over the limit of 1024 MiB" in str(error)
    worker.push()


def test_an_answer_that_is_late_is_told_also_to_who_is_called_back(plane: Served) -> None:
    worker = Worker(plane.transport(), job())
    worker.rows()
    told = threading.Event()
    call = worker.begin("Pull", worker.pull_header(version=9, timeout_ms=WAIT_MS), timeout_s=0.1)
    found: list[BaseException | None] = []

    def note(done: Answer) -> None:
        found.append(done.exception())
        told.set()

    call.add_done_callback(note)
    assert told.wait(10.0)
    assert isinstance(found[0], DeadlineError)


def test_a_process_that_is_forked_leaves_the_connection_alone(plane: Served) -> None:
    worker = Worker(plane.transport(), job())
    first = worker.rows()
    client = worker.transport._client  # type: ignore[attr-defined]
    child = os.fork()
    if child == 0:
        is_right = not client.is_open and client.call(1, b"", (), 0).state == 3
        client.close()
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.is_open
    np.testing.assert_array_equal(worker.rows(), first)
    assert worker.transport._client is client  # type: ignore[attr-defined]


def num_blocks() -> int:
    """How often shared memory is in this process."""
    with open("/proc/self/maps") as maps:
        return sum("memfd:fleet-block" in line for line in maps)


def test_blocks_need_no_files_and_end_with_their_connection() -> None:
    gc.collect()  # connections of former tests, which errors still refer to
    of_others = num_blocks()
    with served("SHM") as plane:
        worker = Worker(plane.transport(), job())
        keys = np.arange(10_000, dtype=np.int64)
        worker.rows(keys)
        before = len(os.listdir("/proc/self/fd"))
        held = [
            worker.begin("Pull", worker.pull_header(tables=[0]), keys).result(LIMIT_S) for _ in range(50)
        ]  # each keeps a block
        assert len(held) == 50
        assert len(os.listdir("/proc/self/fd")) - before < 10
        assert num_blocks() > of_others + 50
        held.clear()
        worker.transport.close()
        wait_until(lambda: num_blocks() <= of_others, LIMIT_S, "the end of blocks")


def test_nothing_is_left_of_a_server_that_was_stopped() -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    def once() -> weakref.ref[Service]:
        with served("SHM") as plane:
            Worker(plane.transport(), job()).push()
            assert plane.plane is not None
            return weakref.ref(plane.service)

    once()
    gc.collect()
    files, before = len(os.listdir("/proc/self/fd")), threads()
    seen = [once() for _ in range(3)]

    def are_gone() -> bool:
        gc.collect()  # a thread that ends may have held what refers to itself
        return not any(one() for one in seen)

    wait_until(are_gone, LIMIT_S, "the end of the services")
    wait_until(lambda: threads() <= before + 2, LIMIT_S, "the end of threads")
    assert len(os.listdir("/proc/self/fd")) <= files + 3
