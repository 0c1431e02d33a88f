"""A worker's next life: what its former lives have sent may come late, and what they have begun is finished first."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch

from fleet.errors import CommunicationError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.status import unreachable
from fleet.ps.wire.transport import Answer, LocalTransport
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.calling.joining import LostStateError
from fleet.ps.worker.sending.gradients import Gradients, TablePush

KEYS = torch.arange(16)


class Flaky(LocalTransport):
    """A connection that can be cut."""

    is_cut = dies = False
    """`dies`: its worker is ended in the middle of its next call."""

    def call(self, method: str, header: Any, tensors: Any, timeout_s: float) -> Any:
        if self.is_cut or self.dies:
            answer: Answer = Future()
            answer.set_exception(KeyboardInterrupt() if self.dies else unreachable(self.endpoint, method, "cut"))
            return answer
        return super().call(method, header, tensors, timeout_s)


def job_of(mode: str) -> JobSpec:
    entry = entries.ShowClickEntry("show", "click", threshold=0.0)
    table = TableSpec("ads", 1, rules.SGD(lr=1.0), initializers.Constant(0.0), entry)
    return JobSpec(2, 2, mode, tables=(table,))


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Service]]:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    monkeypatch.setenv("FLEET_RECOVERY_TIMEOUT_S", "1")
    found = [Service(journal=(tmp_path / f"server-{number}", "OS")) for number in range(2)]
    yield found
    for one in found:
        one.close()


def life_of(services: list[Service], worker: int, mode: str) -> tuple[Client, Flaky]:
    """A new life of a worker, which has joined, and its connection to server 1."""
    last = Flaky(services[1])
    client = Client([LocalTransport(services[0]), last], worker, job_of(mode))
    client.declare()
    return client, last


def push(client: Client, step: int, *, is_awaited: bool = False) -> Any:
    found = route(KEYS, 2)
    ones = torch.ones(len(KEYS))
    rows = TablePush(0, 1.0, found.grouped, torch.zeros(len(KEYS), 1), found.offsets.tolist(), None, 8 * ones, 0 * ones)
    return client.push(Gradients(step, [rows], steps=step + 1), is_awaited=is_awaited)


def shows(service: Service) -> set[float]:
    return set(service.state.held.tables[0].export(0, 64)["shows"].tolist())


def test_a_word_of_a_life_that_is_over_does_not_end_the_present_one(services: list[Service]) -> None:
    def declare(life: int, incarnation: int = 0) -> int:
        caller = ps_pb2.Caller(worker=0, incarnation=incarnation)
        header = ps_pb2.DeclareRequest.Header(caller=caller, job=job_of("async").to_json(), life=life)
        reply, _ = services[0].handle("Declare", header, ())
        assert isinstance(reply, ps_pb2.DeclareReply.Header)
        return reply.incarnation

    assert declare(life=11) == 1  # asks, dies, and its declaration comes late
    assert declare(life=22) == 1
    assert declare(life=22, incarnation=1) == 1
    assert declare(life=33) == 2  # the question of a life that died before: it changes nothing
    assert declare(life=11, incarnation=1) == 0
    assert services[0].state.ledger.incarnation(0) == 1
    assert declare(life=22) == 1


def test_a_change_that_is_the_first_of_its_life_is_finished_by_the_next(services: list[Service]) -> None:
    first, _ = life_of(services, 0, "async")
    push(first, 0).results()
    second, last = life_of(services, 0, "async")
    last.is_cut = True
    with pytest.raises(CommunicationError, match="cut"):
        second.changes.make(
            "Shrink", lambda server: ps_pb2.ShrinkRequest.Header(caller=second.caller(server), decay=0.5)
        )
    assert [shows(one) for one in services] == [{4.0}, {8.0}]
    life_of(services, 0, "async")  # its outbox has the push of the first life, too
    assert [shows(one) for one in services] == [{4.0}, {4.0}]


def test_no_step_waits_for_the_next_life_of_a_worker_that_was_about_to_leave(services: list[Service]) -> None:
    leaving, last = life_of(services, 0, "sync")
    other, others_last = life_of(services, 1, "sync")
    last.dies = True
    with pytest.raises(KeyboardInterrupt):
        leaving.changes.leave()
    others_last.is_cut = True
    waiting = push(other, 0, is_awaited=True)  # server 0 makes the step without the worker that has left
    assert [one.state.rounds.version for one in services] == [1, 0]
    number = services[1].state.ledger.incarnation(0)
    others_last.is_cut = False
    life = Client([LocalTransport(one) for one in services], 0, job_of("sync"))
    with pytest.raises(LostStateError, match="different steps"):  # the other's push is still under way
        life.declare()
    assert services[1].state.ledger.incarnation(0) > number
    waiting.results()
    assert [one.state.rounds.version for one in services] == [1, 1]
    life.declare()
    life.changes.leave()
