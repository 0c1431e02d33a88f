"""Workers who meet on a server: one contract for every way to it, and as many of them as there may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fleet.errors import CommunicationError, UsageError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.meetings import meetings
from fleet.ps.proto import ps_pb2
from fleet.ps.server.grpc_door import TokenGuard
from fleet.ps.server.service import Service
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.wire.transport import Answer, Transport
from support.parity.training import in_threads
from support.plane.plane import KINDS, PLANES, Served, served
from support.processes import wait_until

LIMIT_S = 60.0
WAIT_MS = 60_000
MANY = 1_500


def job(num_workers: int = 2) -> JobSpec:
    table = TableSpec("ads", 2, rules.SGD(), initializers.Constant(1.0), entries.AlwaysEntry())
    return JobSpec(num_workers, 1, "sync", "error", (table,))


@pytest.fixture(params=[kind for kind in KINDS if kind != "LOCAL"])
def two(request: pytest.FixtureRequest) -> Iterator[tuple[Served, list[Transport]]]:
    """A server whose two workers have declared their job."""
    with served(request.param) as one:
        transports = [one.transport() for _ in range(2)]
        for worker in range(2):
            declare(transports[worker], worker)
        yield one, transports


def caller(worker: int, incarnation: int = 1) -> ps_pb2.Caller:
    return ps_pb2.Caller(worker=worker, incarnation=incarnation)


def declare(transport: Transport, worker: int, incarnation: int = 1, num_workers: int = 2) -> None:
    header = ps_pb2.DeclareRequest.Header(caller=caller(worker, incarnation), job=job(num_workers).to_json())
    transport.call("Declare", header, (), LIMIT_S).result(LIMIT_S)


def begin(transport: Transport, worker: int, name: str = "m", incarnation: int = 1, **fields: Any) -> Answer:
    given = {"is_here": True, "text": f"of {worker}", "timeout_ms": WAIT_MS, **fields}
    header = ps_pb2.MeetRequest.Header(caller=caller(worker, incarnation), name=name, **given)
    return transport.call("Meet", header, (), LIMIT_S)


def reply(answer: Answer) -> Any:
    return answer.result(LIMIT_S)[0]


def push(transport: Transport, worker: int, step: int) -> Answer:
    table = ps_pb2.PushRequest.Table(table=0, lr=0.5)
    header = ps_pb2.PushRequest.Header(caller=caller(worker), sequence=step + 1, step=step, tables=[table])
    return transport.call("Push", header, [np.array([1, 2]), np.ones((2, 2), np.float32)], LIMIT_S)


def num_waiting(one: Served) -> int:
    return len(one.service.state.meetings._waiting)


def is_gone(one: Served) -> bool:
    return any(visit.is_gone for visit, _, _ in list(one.service.state.meetings._waiting.values()))


def wait_for(one: Served, count: int) -> None:
    wait_until(lambda: num_waiting(one) == count, LIMIT_S, f"{count} to wait")


def test_all_who_meet_learn_what_each_said(two: tuple[Served, list[Transport]]) -> None:
    one, (first, second) = two
    waiting = begin(first, 0)
    wait_for(one, 1)
    assert not waiting.done()
    for answer in (begin(second, 1), waiting, begin(first, 0)):  # also who asks again, for the answer was lost
        told = reply(answer)
        assert (told.is_complete, list(told.texts), told.signs) == (True, ["of 0", "of 1"], 2)
    assert num_waiting(one) == 0


def test_who_waits_in_vain_is_told_when_its_time_is_over(two: tuple[Served, list[Transport]]) -> None:
    one, (first, second) = two
    told = reply(begin(first, 0, timeout_ms=150))
    assert (told.is_complete, list(told.missing), list(told.elsewhere), told.signs) == (False, [1], [], 1)
    assert reply(begin(first, 0, others=[0])).is_complete
    assert reply(begin(second, 1, is_here=False, timeout_ms=0)).signs == 2
    with pytest.raises(UsageError, match="worker 7 does not exist in a job of 2 workers"):
        reply(begin(first, 0, others=[7]))
    assert num_waiting(one) == 0


def test_one_who_makes_a_step_or_leaves_will_not_come(two: tuple[Served, list[Transport]]) -> None:
    one, (first, second) = two
    between, aside = begin(first, 0, is_between_steps=True), begin(first, 0, name="aside")
    wait_for(one, 2)
    push(second, 1, 0)
    assert list(reply(between).elsewhere) == [1]
    assert not aside.done()  # of a meeting in the background nothing follows from a step
    second.call("Leave", ps_pb2.LeaveRequest.Header(caller=caller(1), sequence=100), (), LIMIT_S).result(LIMIT_S)
    assert list(reply(aside).elsewhere) == [1]


def test_who_was_started_again_waits_no_more_and_what_it_said_does_not_count(
    two: tuple[Served, list[Transport]],
) -> None:
    one, (first, second) = two
    former, other = begin(second, 1, others=[0]), begin(first, 0, name="n", others=[1], is_here=False)
    reply(begin(second, 1, name="n", others=[1], timeout_ms=0))
    assert reply(other).is_complete
    wait_for(one, 1)
    declare(second, 1, incarnation=2)
    with pytest.raises(CommunicationError, match="its former life"):
        reply(former)
    assert list(reply(begin(first, 0, name="n", timeout_ms=50)).missing) == [1]
    last = begin(first, 0)
    wait_for(one, 1)
    assert reply(begin(second, 1, incarnation=2)).is_complete
    assert reply(last).is_complete


def test_meetings_end_with_the_server(two: tuple[Served, list[Transport]]) -> None:
    one, (first, _) = two
    waiting = begin(first, 0)
    wait_for(one, 1)
    one.service.close()
    with pytest.raises(CommunicationError, match="the server is stopping"):
        reply(waiting)


def test_workers_meet_on_a_server_that_can_train_nothing(two: tuple[Served, list[Transport]]) -> None:
    one, (first, second) = two
    one.service.core.failure = "a step failed"  # they load a checkpoint together
    waiting = begin(first, 0)
    wait_for(one, 1)
    assert reply(begin(second, 1)).is_complete
    assert reply(waiting).is_complete


@pytest.mark.parametrize("kind", PLANES)
def test_a_call_whose_connection_was_lost_comes_again(kind: str) -> None:
    with served(kind) as one:
        first, second = (one.transport() for _ in range(2))
        for worker, transport in enumerate((first, second)):
            declare(transport, worker)
        lost = begin(first, 0)
        wait_for(one, 1)
        first.close()
        assert lost.exception(LIMIT_S) is not None
        again = one.transport()
        declare(again, 0)  # learns where the data plane is
        waiting = begin(again, 0)
        wait_until(lambda: num_waiting(one) == 1 and not is_gone(one), LIMIT_S, "the lost call to be forgotten")
        assert reply(begin(second, 1)).is_complete
        assert reply(waiting).is_complete


def test_more_workers_wait_than_there_could_be_threads() -> None:
    with served("UNIX") as one:
        transports = [one.transport() for _ in range(4)]
        for worker in range(MANY):
            declare(transports[0], worker, num_workers=MANY)
        before = threading.active_count()
        answers = [begin(transports[worker % 4], worker, text="") for worker in range(MANY - 1)]
        wait_for(one, MANY - 1)
        assert threading.active_count() <= before
        answers.append(begin(transports[0], MANY - 1, text="last"))
        for answer in answers:
            told = reply(answer)
            assert (told.is_complete, told.texts[-1]) == (True, "last")


def test_more_workers_meet_by_grpc_than_may_wait_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "MAX_THREADS", 2)
    count = 6
    with served("GRPC") as one:
        workers = [Attendee(one.transport(), worker, count) for worker in range(count)]
        said = in_threads(
            *(lambda w=w: WorkerMeetings(w, "test", LIMIT_S).gather_bytes(b"%d" % w.worker) for w in workers)
        )
        assert said == [[b"%d" % worker for worker in range(count)]] * count


class Attendee:
    """A worker who only meets others."""

    def __init__(self, transport: Transport, worker: int, num_workers: int) -> None:
        self.worker, self.num_workers, self._transport = worker, num_workers, transport
        declare(transport, worker, num_workers=num_workers)

    def caller(self, server: int) -> ps_pb2.Caller:
        assert server == 0
        return caller(self.worker)

    def arrive(self) -> None:
        pass

    def ask_first(self, method: str, header: Any, timeout_s: float, patience_s: float) -> Any:  # noqa: ARG002
        return self._transport.call(method, header(), (), timeout_s).result(LIMIT_S)


def test_only_the_first_declaration_of_a_job_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    header = ps_pb2.DeclareRequest.Header(caller=caller(0), job=job().to_json())
    service.handle("Declare", header, ())
    monkeypatch.setattr(JobSpec, "from_json", lambda _: pytest.fail("it was read again"))
    header.caller.worker = 1
    service.handle("Declare", header, ())
    monkeypatch.undo()
    header.job = job(3).to_json()
    with pytest.raises(UsageError, match="worker 1 does not agree with the job"):
        service.handle("Declare", header, ())
    service.close()


def test_a_server_drops_no_call_of_many_that_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go, look = threading.Event(), TokenGuard.intercept_service

    def slow(self: TokenGuard, *arguments: Any) -> Any:  # runs where gRPC takes calls from its queue
        assert may_go.wait(LIMIT_S)
        return look(self, *arguments)

    with served("GRPC") as one:
        transports = [one.transport() for _ in range(8)]
        declare(transports[0], 0, num_workers=MANY)
        monkeypatch.setattr(TokenGuard, "intercept_service", slow)
        header = ps_pb2.StatsRequest.Header(caller=caller(0))
        answers = [transports[number % 8].call("Stats", header, (), LIMIT_S) for number in range(MANY)]
        may_go.wait(0.5)  # while they arrive: too short, and less is tested
        may_go.set()
        for answer in answers:
            error = answer.exception(LIMIT_S)
            assert error is None or (isinstance(error, CommunicationError) and error.retryable), error
