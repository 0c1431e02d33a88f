"""Synchronous steps by every way to a server: who waits for whom, what ends a wait, and the bits that come out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fleet.errors import CommunicationError, OutdatedError
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.steps.core import EVERYBODY
from fleet.ps.wire.transport import Answer
from support.plane.plane import KINDS, PLANES, Served, served
from support.plane.plane_worker import KEYS, LIMIT_S, NUM_DENSE, ONES, WAIT_MS, WIDTH, Worker, job, pair, pushed, said
from support.processes import wait_until


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one


def load_checkpoint(service: Service) -> None:
    """As the service does, when its rows are replaced."""
    with service.core.gate.closed, service.core.changed:
        service.state.loaded(0)
        service.core.tell(EVERYBODY)


@pytest.fixture(params=KINDS[1:])
def sync_place(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one


def test_two_workers_wait_for_each_other(sync_place: Served) -> None:
    one, two = pair(sync_place)
    first = one.rows()
    for step in range(5):
        early = pushed(one, 1.0, step=step)
        pulled = one.begin("Pull", one.pull_header(version=step + 1, tables=[0], timeout_ms=WAIT_MS), KEYS)
        with pytest.raises(TimeoutError):
            early.result(0.02)
        assert not pulled.done()
        answers = [pushed(two, 3.0, step=step).result(LIMIT_S), early.result(LIMIT_S), pulled.result(LIMIT_S)]
        for reply, (rows,) in answers:
            assert reply.version == step + 1  # type: ignore[attr-defined]
            np.testing.assert_allclose(
                np.frombuffer(rows, np.float32).reshape(first.shape), first - (step + 1), atol=1e-5
            )


def test_a_worker_that_is_late(sync_place: Served) -> None:
    one, two = pair(sync_place)
    texts = [said(pushed(one, 1.0, 50).exception(LIMIT_S) or AssertionError())]
    header = one.pull_header(version=1, tables=[0], timeout_ms=50)
    texts.append(said(one.error("Pull", header, KEYS)))
    text = "waited 0.05 s for step 0: no gradients from worker 1. Is it slow or gone? FLEET_STEP_TIMEOUT_S sets how "
    assert texts == [text + "long to wait"] * 2
    again = pushed_again(one)  # its push was taken all the same
    assert pushed(two, 3.0).result(LIMIT_S)[0].version == 1  # type: ignore[attr-defined]
    assert again.result(LIMIT_S)[0].was_repeated  # type: ignore[attr-defined]


def pushed_again(worker: Worker, timeout_ms: int = WAIT_MS) -> Answer:
    return worker.begin("Push", worker.push_header(sequence=1, timeout_ms=timeout_ms), KEYS, ONES)


def test_a_checkpoint_drops_a_step(sync_place: Served) -> None:
    one, _ = pair(sync_place)
    waiting = pushed(one, 1.0)
    wait_until(lambda: sync_place.service.state.rounds.pushed() == {0}, LIMIT_S, "the push")
    load_checkpoint(sync_place.service)
    error = waiting.exception(LIMIT_S)
    assert type(error) is OutdatedError
    assert "a checkpoint was loaded while worker 0 waited for step 0" in str(error)


def test_a_push_of_a_step_before_a_load_that_comes_again_does_not_wait_for_it(sync_place: Served) -> None:
    """As where a worker dies in a load, and its next life finds the push before it in the outbox."""
    one, two = pair(sync_place)
    waiting = pushed(one, 1.0)
    assert pushed(two, 3.0).result(LIMIT_S)[0].version == 1  # type: ignore[attr-defined]
    assert waiting.result(LIMIT_S)[0].version == 1  # type: ignore[attr-defined]
    load_checkpoint(sync_place.service)
    error = pushed_again(one).exception(LIMIT_S)
    assert isinstance(error, CommunicationError), error
    assert "a checkpoint was loaded" in said(error)


def test_a_step_that_is_dropped_before_its_push_waits(plane: Served) -> None:
    """Between the taking of a push and its waiting, which native code does, much can happen."""
    one, _ = pair(plane)
    take = plane.service.pushes.take_call

    def slowly(call: Any) -> Any:
        taken = take(call)
        load_checkpoint(plane.service)
        return taken

    plane.service.pushes.take_call = slowly  # type: ignore[method-assign]
    error = pushed(one, 1.0).exception(LIMIT_S)
    assert "a checkpoint was loaded while worker 0 waited for step 0" in str(error)


@pytest.mark.parametrize("is_before", [True, False])
def test_whoever_waits_for_one_that_has_ended_waits_in_vain(sync_place: Served, is_before: bool) -> None:
    one, two = pair(sync_place)
    leave = ps_pb2.LeaveRequest.Header(caller=two.caller, is_unfinished=True, sequence=100)
    if is_before:
        two.ask("Leave", leave)
    header = one.pull_header(version=1, tables=[0], timeout_ms=WAIT_MS)
    calls = [pushed(one, 1.0), one.begin("Pull", header, KEYS)]
    if not is_before:
        with pytest.raises(TimeoutError):
            calls[1].result(0.05)
        two.ask("Leave", leave)
    texts = {said(call.exception(10.0) or AssertionError()) for call in calls}
    assert len(texts) == 1
    assert "worker 1" in texts.pop()


def test_who_left_is_not_waited_for(sync_place: Served) -> None:
    one, two = pair(sync_place)
    waiting = pushed(one, 1.0)
    two.ask("Leave", ps_pb2.LeaveRequest.Header(caller=two.caller, sequence=101))
    assert waiting.result(LIMIT_S)[0].version == 1  # type: ignore[attr-defined]


def test_a_new_life_ends_the_calls_of_the_former(sync_place: Served) -> None:
    one, two = pair(sync_place)
    waiting = pushed(one, 1.0)
    wait_until(lambda: sync_place.service.state.rounds.pushed() == {0}, LIMIT_S, "the push")
    again = Worker(sync_place.transport(), job("sync", 2), 0, incarnation=2)
    assert type(waiting.exception(LIMIT_S)) is OutdatedError
    answers = [pushed(again, 1.0), pushed(two, 1.0)]
    assert [answer.result(LIMIT_S)[0].version for answer in answers] == [1, 1]  # type: ignore[attr-defined]


def test_the_end_of_a_service_ends_calls_that_wait(sync_place: Served) -> None:
    one, _ = pair(sync_place)
    header = one.pull_header(version=1, tables=[0], timeout_ms=WAIT_MS)
    calls = [pushed(one, 1.0), one.begin("Pull", header, KEYS)]
    wait_until(lambda: sync_place.service.state.rounds.pushed() == {0}, LIMIT_S, "the push")
    with pytest.raises(TimeoutError):
        calls[1].result(0.1)
    sync_place.service.close()
    if sync_place.plane is not None:
        sync_place.stop_plane()  # at once, as a server does
    for call in calls:
        error = call.exception(LIMIT_S)
        assert type(error) is CommunicationError
        assert "the server is stopping" in str(error)
        assert not error.retryable


def test_who_has_gone_is_forgotten(plane: Served) -> None:
    one, two = pair(plane)
    waiting = pushed(one, 1.0)
    wait_until(lambda: plane.service.state.rounds.pushed() == {0}, LIMIT_S, "the push")
    one.transport.close()
    error = waiting.exception(LIMIT_S)
    assert isinstance(error, CommunicationError)
    assert error.retryable
    assert plane.plane is not None
    server = plane.plane._server
    two.rows()
    wait_until(lambda: server.counts()["connections"] == 1, LIMIT_S, "the end of the connection")
    assert pushed(two, 1.0).result(LIMIT_S)[0].version == 1  # type: ignore[attr-defined]


def trained(kinds: tuple[str, str], num_steps: int = 4) -> bytes:
    """The bits of rows and dense values that two workers have trained, each by its own way."""
    rng = np.random.default_rng(5)
    with served("TLS" if "TLS" in kinds else "SHM") as one:
        workers = []
        for index, kind in enumerate(kinds):
            one.kind = kind
            workers.append(Worker(one.transport(), job("sync", 2), index))
        for step in range(num_steps):
            calls = []
            for worker in workers if step % 2 else workers[::-1]:
                keys = rng.integers(0, 20, 30)
                grads = rng.normal(size=(30, WIDTH)).astype(np.float32)
                dense = rng.normal(size=NUM_DENSE).astype(np.float32)
                header = worker.push_header(step=step, timeout_ms=WAIT_MS, dense_lrs=[0.1])
                calls.append(worker.begin("Push", header, keys, grads, dense))
            for call in calls:
                call.result(LIMIT_S)
        wanted = workers[0].pull_header(tables=[0], dense=True)
        return b"".join(one.tobytes() for one in workers[0].ask("Pull", wanted, np.arange(20))[1])


def test_the_same_bits_whichever_way_each_worker_has() -> None:
    expected = trained(("GRPC", "GRPC"))
    for kinds in (("SHM", "SHM"), ("SHM", "GRPC"), ("GRPC", "TCP"), ("UNIX", "SHM"), ("TLS", "SHM")):
        assert trained(kinds) == expected, kinds


def test_a_push_that_comes_by_every_way_at_once_counts_once() -> None:
    with served("TLS") as one:
        workers = []
        for kind in ("SHM", "UNIX", "TLS", "GRPC"):
            one.kind = kind
            workers.append(Worker(one.transport(), job()))
        first = workers[0].rows()
        for sequence in range(1, 31):
            calls = [worker.begin("Push", worker.push_header(sequence=sequence), KEYS, ONES) for worker in workers]
            replies: list[Any] = [call.result(LIMIT_S)[0] for call in calls]
            assert sum(not reply.was_repeated for reply in replies) == 1
        np.testing.assert_allclose(workers[3].rows(), first - 15, atol=1e-5)
