"""A push that is the sum of several counts as each of theirs on a server: once, whole, in the mean of the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from fleet.errors import CommunicationError, UsageError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service

TABLE = TableSpec("ads", 1, rules.SGD(), initializers.Constant(0.0), entries.AlwaysEntry())
NUM_WORKERS = 4
KEYS = np.array([7], np.int64)


def made(mode: str = "sync") -> Service:
    service = Service()
    text = JobSpec(num_workers=NUM_WORKERS, num_servers=1, mode=mode, tables=(TABLE,)).to_json()
    for worker in range(NUM_WORKERS):
        caller = ps_pb2.Caller(worker=worker, incarnation=1)
        service.handle("Declare", ps_pb2.DeclareRequest.Header(caller=caller, job=text), ())
    return service


@pytest.fixture
def service() -> Iterator[Service]:
    one = made()
    yield one
    one.close()


def push(
    service: Service,
    members: Sequence[int],
    grad: float = 1.0,
    passes: Sequence[int] = (),
    step: int = 0,
    caller: int | None = None,
    **fields: Any,
) -> Any:
    """Of several workers, or, with one, of a worker alone."""
    first = members[0] if caller is None else caller
    is_pass = set(members) <= set(passes)
    header = ps_pb2.PushRequest.Header(
        caller=ps_pb2.Caller(worker=first, incarnation=1),
        sequence=step + 1,
        step=step,
        tables=[] if is_pass else [ps_pb2.PushRequest.Table(table=0, lr=1.0)],
        is_pass=is_pass,
        **fields,
    )
    for worker in members if len(members) > 1 else ():
        header.members.add(
            worker=worker, incarnation=1, sequence=step + 1, steps=10 * worker + step, is_pass=worker in passes
        )
    tensors: list[Any] = [] if is_pass else [KEYS, np.array([[grad]], np.float32)]
    return service.handle("Push", header, tensors)[0]


def value(service: Service) -> float:
    return float(service.state.held.tables[0].pull(KEYS)[0, 0])


def test_the_mean_is_over_all_workers(service: Service) -> None:
    push(service, [1, 3], grad=6.0)
    assert service.state.rounds.missing() == [0, 2]
    push(service, [2], grad=1.0)
    push(service, [0], grad=1.0)
    assert value(service) == -(6.0 + 1.0 + 1.0) / 4
    assert service.state.rounds.version == 1
    counts = service.state.stats.counts()
    assert (counts["pushes"], counts["pushed_rows"]) == (4, 3)
    assert [service.state.ledger.history(worker)[0] for worker in range(4)] == [0, 10, 0, 30]


def test_those_who_pass_do_not_count_in_it(service: Service) -> None:
    push(service, [0, 1, 2], grad=3.0, passes=[0, 2])
    push(service, [3], grad=1.0)
    assert value(service) == -(3.0 + 1.0) / 2
    assert service.state.rounds.passed == [0, 2]
    push(service, [0, 1, 2], passes=[0, 1, 2], step=1)
    push(service, [3], passes=[3], step=1)
    assert service.state.rounds.num_ended == 1


def test_one_that_comes_again_changes_nothing(service: Service) -> None:
    push(service, [0, 1], grad=2.0)
    assert push(service, [0, 1], grad=2.0).was_repeated
    push(service, [2, 3], grad=2.0)
    assert push(service, [2, 3], grad=2.0).was_repeated
    assert push(service, [1]).was_repeated  # it asks alone for the answer that was lost
    assert value(service) == -1.0
    assert service.state.rounds.version == 1


def test_it_is_taken_whole_or_not_at_all(service: Service) -> None:
    push(service, [1])
    with pytest.raises(CommunicationError, match="push of worker 0: some of its members' gradients have come without"):
        push(service, [0, 1, 2])
    assert service.state.rounds.missing() == [0, 2, 3]
    push(service, [0])
    with pytest.raises(CommunicationError, match="worker 2 pushed step 1, but the workers are at step 0"):
        push(service, [2, 3], step=1)
    push(service, [2, 3])
    assert service.state.rounds.version == 1


def test_what_cannot_be_is_refused(service: Service) -> None:
    for members, caller in (([0, 4], 0), ([2, 1], 2), ([1, 1], 1), ([0, 1], 2)):
        with pytest.raises(UsageError, match="these are not workers of this job, ascending, with the caller among"):
            push(service, members, caller=caller)
    with pytest.raises(UsageError, match="it is a pass where each of them is one"):
        _pass_of_one(service)
    other = made("async")
    with pytest.raises(UsageError, match="gradients are combined in synchronous jobs that are not durable"):
        push(other, [0, 1])
    other.close()


def _pass_of_one(service: Service) -> None:
    header = ps_pb2.PushRequest.Header(caller=ps_pb2.Caller(worker=0, incarnation=1), sequence=1, is_pass=True)
    for worker in range(2):
        header.members.add(worker=worker, incarnation=1, sequence=1, is_pass=worker == 0)
    service.handle("Push", header, ())
