"""One contract for every way to a server: in this process, by gRPC, and by the data plane in each of its kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fleet.errors import OutdatedError
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.formats import decoded_rows, encoded_rows
from fleet.strategy.parameter_server import FORMATS
from support.plane.plane import KINDS, Served, served
from support.plane.plane_worker import DENSE, KEYS, LIMIT_S, ONES, WIDTH, Worker, job, said


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one
        if one.plane is not None:  # it was not all done by gRPC
            assert one.plane._server.counts()["connections"] > 0


def test_rows_dense_values_and_versions(place: Served) -> None:
    worker = Worker(place.transport(), job())
    first = worker.rows()
    reply, (rows, users, dense) = worker.ask("Pull", worker.pull_header(tables=[0, 1], dense=True), KEYS, KEYS[:1])
    assert reply.version == 0
    np.testing.assert_array_equal(rows.reshape(first.shape), first)
    np.testing.assert_array_equal(users, [2.0] * WIDTH)
    np.testing.assert_array_equal(dense, 0 * DENSE)
    header = worker.push_header(dense_lrs=[0.25], want_dense=True, want_rows=True, pull_tables=[1, 0])
    reply, answered = worker.ask("Push", header, KEYS, ONES, DENSE, KEYS[:2], KEYS[2:])
    assert (reply.version, reply.was_repeated, reply.staleness) == (1, False, 0)
    np.testing.assert_array_equal(answered[0].reshape(first.shape), first - 0.5)
    np.testing.assert_array_equal(answered[1], [2.0] * 2 * WIDTH)
    np.testing.assert_array_equal(answered[2], first[2] - 0.5)
    np.testing.assert_array_equal(answered[3], -0.25 * DENSE)
    assert worker.push(pulled_version=0).staleness == 1


def test_a_push_is_applied_once(place: Served) -> None:
    worker = Worker(place.transport(), job())
    first = worker.rows()
    assert [worker.push(sequence=number).was_repeated for number in (2, 1, 2, 3, 1)] == [
        False,
        False,
        True,
        False,
        True,
    ]
    np.testing.assert_allclose(worker.rows(), first - 1.5, rtol=1e-6)


def test_large_and_many_calls_at_once(place: Served) -> None:
    worker = Worker(place.transport(), job())
    keys = np.arange(200_000, dtype=np.int64)
    large = worker.rows(keys)
    small = [worker.begin("Pull", worker.pull_header(tables=[0]), keys[n : n + 50 * n]) for n in range(64)]
    for number, call in enumerate(small):
        found = np.frombuffer(call.result(LIMIT_S)[1][0], np.float32).reshape(-1, WIDTH)
        np.testing.assert_array_equal(found, large[number : number + 50 * number])


def test_keys_that_are_only_read(place: Served) -> None:
    worker = Worker(place.transport(), job())
    header = worker.pull_header(tables=[0, 1], only_read=[True, True])
    _, (ads, users) = worker.ask("Pull", header, KEYS, KEYS)
    assert ads.all()
    assert not users.any()
    np.testing.assert_array_equal(worker.rows(table=1), 2 * ONES)


@pytest.mark.parametrize("name", FORMATS)
def test_formats(place: Served, name: str) -> None:
    worker, number = Worker(place.transport(), job()), FORMATS.index(name)
    first = worker.rows()
    wanted = decoded_rows(encoded_rows(first, number).tobytes(), number, first.shape, "rows")
    _, (found,) = worker.begin("Pull", worker.pull_header(tables=[0], formats=[number]), KEYS).result(LIMIT_S)
    np.testing.assert_array_equal(decoded_rows(found, number, first.shape, "rows"), wanted)
    table = ps_pb2.PushRequest.Table(table=0, lr=0.5, format=number)  # type: ignore[arg-type]
    worker.ask("Push", worker.push_header(tables=[table]), KEYS, encoded_rows(ONES, number))
    np.testing.assert_allclose(worker.rows(), first - 0.5, atol=0.01)


def refusals(worker: Worker) -> list[str]:
    without = worker.push_header()
    without.caller.worker = 9
    calls: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("Push", without, (KEYS, ONES)),
        ("Pull", worker.pull_header(tables=[7]), (KEYS,)),
        ("Pull", worker.pull_header(tables=[0, 1]), (KEYS,)),
        ("Pull", worker.pull_header(tables=[0], formats=[99]), (KEYS,)),
        ("Pull", worker.pull_header(version=1, timeout_ms=30), ()),
    ]
    return [
        f"{type(error).__name__}: {said(error)}" for one in calls for error in [worker.error(one[0], one[1], *one[2])]
    ]


def test_refusals_are_the_same_and_change_nothing(place: Served) -> None:
    worker = Worker(place.transport(), job())
    first = worker.rows()
    found = refusals(worker)
    with served("LOCAL") as other:
        assert found == refusals(Worker(other.transport(), job()))
    np.testing.assert_array_equal(worker.rows(), first)
    assert worker.push().version == 1


def test_a_former_life_is_refused(place: Served) -> None:
    old = Worker(place.transport(), job(), incarnation=1)
    old.push()
    new = Worker(place.transport(), job(), incarnation=2)
    for method, header, tensors in (
        ("Push", old.push_header(), (KEYS, ONES)),
        ("Pull", old.pull_header(tables=[0]), (KEYS,)),
    ):
        error = old.error(method, header, *tensors)
        assert type(error) is OutdatedError
        assert not error.retryable
    new.push()


# Synchronous training. A service in this process cannot wait for two of one thread.
