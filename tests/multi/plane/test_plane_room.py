"""Calls that wait for other workers keep no room from them, whichever way they came (docs/wire.md, Room)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from fleet.ps.job import rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.wire import messages as wire
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients
from support.plane.plane import Served, served
from support.plane.raw_plane import ERROR, PULL, REPLY, REQUEST, connection, context_of, head, read
from support.processes import wait_until

LIMIT_S = 30.0
NUM_WORKERS = 4
SIZE = 1 << 20
"""Of the dense parameters: 4 MB, of which the room for messages takes three."""


def job(mode: str, size: int = SIZE, num_workers: int = NUM_WORKERS) -> JobSpec:
    dense = DenseSpec((rules.SGD(),), (("w", (size,)),), (DenseBlock("w", 0, size, 0, 0),))
    return JobSpec(num_workers, 1, mode, "error", (), dense)


@pytest.fixture(autouse=True)
def small_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_MEMORY_BUDGET", "48M")
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "3")


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
def test_pushes_of_one_step_that_are_larger_than_the_room(place: Served, is_awaited: bool) -> None:
    found = at_once(clients(place, job("sync")), "step", is_awaited=is_awaited)
    assert found == ["pushed"] * NUM_WORKERS
    assert place.service.state.rounds.version == 1


def test_a_meeting_that_is_larger_than_the_room(place: Served) -> None:
    found = at_once(clients(place, job("async")), "meeting")
    assert found == [[5 * SIZE] * NUM_WORKERS] * NUM_WORKERS


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
