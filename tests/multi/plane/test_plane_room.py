"""Calls that wait for other workers keep no room from them, whichever way they came (docs/wire.md, Room)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fleet.errors import CommunicationError
from fleet.ps.job import rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, KeptTensor
from fleet.ps.proto import ps_pb2
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.wire import messages as wire
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.grpc_client import GrpcTransport
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients
from support.plane.plane import Served, plane_transport, served
from support.plane.raw_plane import ERROR, PULL, REPLY, REQUEST, connection, context_of, head, read
from support.processes import wait_until
from support.serving.serving import TOKEN

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors
    from fleet.ps.wire.transport import Transport

LIMIT_S = 30.0
NUM_WORKERS = 4
SIZE = 1 << 20
"""Of the dense parameters: 4 MB, of which the room for messages takes three."""
CALLER = ps_pb2.Caller(worker=0, incarnation=1)
KEEPS = JobSpec(1, 1, "async", kept=(KeptTensor("w", "float32", (2 * SIZE,), 0),))
DECLARE = ps_pb2.DeclareRequest.Header(caller=CALLER, job=KEEPS.to_json())


def job(mode: str, size: int = SIZE, num_workers: int = NUM_WORKERS) -> JobSpec:
    dense = DenseSpec((rules.SGD(),), (("w", (size,)),), (DenseBlock("w", 0, size, 0, 0),))
    return JobSpec(num_workers, 1, mode, "error", (), dense)


@pytest.fixture(autouse=True)
def small_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_MEMORY_BUDGET", "48M")
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "3")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody finds room in the end, after as many tries as a busy machine needs."""
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", str(LIMIT_S))


@pytest.fixture(params=["GRPC", "SHM", "TCP", "TLS"])
def place(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one


def clients(place: Served, spec: JobSpec) -> list[Client]:
    """Workers that know where the data plane is."""
    made = [Client([place.transport()], worker, spec) for worker in range(spec.num_workers)]
    for one in (*made, *made):
        one.declare()
    made[0].start([[np.zeros(spec.dense.size(0, 0), np.float32)]])
    return made


def at_once(made: list[Client], what: str, *, is_awaited: bool = True) -> list[object]:
    """What becomes of a step, or of a meeting, of workers that come at the same moment."""
    found: list[object] = [None] * len(made)

    def work(worker: int) -> None:
        try:
            if what == "meeting":
                texts = WorkerMeetings(made[worker], "all", LIMIT_S).gather_bytes(b"x" * (5 * SIZE))
                found[worker] = [len(text) for text in texts]
            else:
                ones = np.full(SIZE, worker + 1.0, np.float32)
                push = Gradients(0, [], [[ones]], {0: 0.1}, steps=1)
                made[worker].push(push, want_dense=False, is_awaited=is_awaited).results()
                found[worker] = "pushed"
        except Exception as error:
            found[worker] = error

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(len(made))]
    for one in threads:
        one.start()
    for one in threads:
        one.join(LIMIT_S)
    return found


@pytest.mark.parametrize("is_awaited", [True, False], ids=["awaited", "not awaited"])
def test_pushes_of_one_step_that_are_larger_than_the_room(patient: None, place: Served, is_awaited: bool) -> None:
    found = at_once(clients(place, job("sync")), "step", is_awaited=is_awaited)
    assert found == ["pushed"] * NUM_WORKERS
    assert place.service.state.rounds.version == 1


def test_a_meeting_that_is_larger_than_the_room(patient: None, place: Served) -> None:
    found = at_once(clients(place, job("async")), "meeting")
    assert found == [[5 * SIZE] * NUM_WORKERS] * NUM_WORKERS


@pytest.mark.parametrize("first", ["GRPC", "SHM", "TCP"])
@pytest.mark.parametrize("second", ["GRPC", "SHM", "TCP"])
def test_all_ways_share_one_room(first: str, second: str) -> None:
    """A large call is being answered: another large one finds room once it is done, whichever way both have come."""
    begun, goes_on = threading.Event(), threading.Event()
    with served("SHM") as one:
        assert one.grpc is not None
        handle = one.service.handle

        def slowly(method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
            if method == "Keep":
                begun.set()
                assert goes_on.wait(LIMIT_S)
            return handle(method, header, tensors)

        one.service.handle = slowly  # type: ignore[method-assign]
        ways: list[Transport] = []
        for kind in (first, second):
            made: Transport = GrpcTransport(str(one.grpc.endpoint), TOKEN)
            ways.append(made if kind == "GRPC" else plane_transport(made, kind))
            ways[-1].call("Declare", DECLARE, (), LIMIT_S).result(LIMIT_S)
        kept = np.zeros(2 * SIZE, np.float32)
        call = ways[0].call("Keep", ps_pb2.KeepRequest.Header(caller=CALLER, sequence=1), [kept], LIMIT_S)
        assert begun.wait(LIMIT_S)
        assert one.service.budget.held_bytes >= kept.nbytes
        again = ps_pb2.KeepRequest.Header(caller=CALLER, sequence=2)
        refused = ways[1].call("Keep", again, [kept], LIMIT_S).exception(LIMIT_S)
        assert isinstance(refused, CommunicationError)
        assert refused.retryable
        assert "no room for a message" in str(refused)
        goes_on.set()
        call.result(LIMIT_S)
        ServerCall(ways[1], "Keep", again, [kept], LIMIT_S, LIMIT_S).result()
        wait_until(lambda: one.service.budget.held_bytes == 0, LIMIT_S, "the room to be free")
        for way in ways:
            way.close()


@pytest.mark.parametrize("kind", ["TCP", "TLS"])
def test_answers_that_nobody_reads_count_also_where_each_is_small(kind: str) -> None:
    size, num_pulls = (1 << 18) - 64, 150
    with served(kind) as one:
        client = clients(one, job("async", size, 1))[0]
        assert one.grpc is not None
        plane = one.plane
        assert plane is not None
        header = ps_pb2.PullRequest.Header(caller=client.caller(0), dense=True)
        request = wire.encode("PullRequest", header, [])
        tls = None if one.tls is None else context_of(one.tls)
        with connection(one.grpc.endpoint, plane._server.port, is_welcome=True, tls=tls) as raw:
            before = plane._server.counts()["pulls"]
            raw.sendall((head(REQUEST, len(request), method=PULL) + request) * num_pulls)
            wait_until(lambda: plane._server.counts()["pulls"] == before + num_pulls, LIMIT_S, "all pulls")
            found = [read(raw)[:2] for _ in range(num_pulls)]
        assert set(found) == {(REPLY, PULL), (ERROR, 8)}
        # What the sockets of both ends have taken comes on top of the room.
        assert sum(kind == REPLY for kind, _ in found) < num_pulls // 2
