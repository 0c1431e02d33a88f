"""Workers of one machine add their gradients and send one push: sums, answers, and each push applied once.

Real sockets, in one process: the workers are threads, each with its own connections.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import fleet
from fleet.errors import CommunicationError, DeadlineError, FleetError, UsageError
from fleet.ps.combine.combined_transport import CombinedTransport
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import DenseBlock, DenseSpec, JobSpec, TableSpec
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import Answer, Transport
from fleet.ps.wire.voices import voice_of
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.asking.lookup import Request, make_lookup
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients, TablePush
from fleet.runtime.modules import combine as combine_module
from fleet.runtime.modules.combine import check_combining, combine
from support.parity.training import in_threads, started
from support.plane.plane import served
from support.processes import wait_until

LIMIT_S = 60.0
WIDTH, NUM_DENSE, NUM_WORKERS = 3, 5, 4
pytestmark = pytest.mark.timeout(LIMIT_S)


def job(num_workers: int = NUM_WORKERS, **more: Any) -> JobSpec:
    tables = (
        TableSpec("ads", WIDTH, rules.Adagrad(lr=0.5), initializers.Uniform(-1, 1), entries.AlwaysEntry()),
        TableSpec("users", WIDTH, rules.SGD(), initializers.Constant(2.0), entries.CountFilterEntry(3)),
    )
    dense = DenseSpec((rules.Adam(lr=0.1),), (("w", (NUM_DENSE,)),), (DenseBlock("w", 0, NUM_DENSE, 0, 0),))
    return JobSpec(num_workers, 1, **{"mode": "sync", "nonfinite": "error", "tables": tables, "dense": dense, **more})


def strategy() -> fleet.DistributedStrategy:
    made = fleet.DistributedStrategy()
    made.a_sync = False
    made.combine_gradients = "machine"
    return made


class Lossy(Transport):
    """A server, some of whose answers to pushes are lost on the way."""

    def __init__(self, inner: Transport, rng: random.Random | None) -> None:
        self.endpoint, self._inner, self._rng = inner.endpoint, inner, rng

    def call(self, method: str, header: Any, tensors: Any, timeout_s: float) -> Answer:
        answer = self._inner.call(method, header, tensors, timeout_s)
        if method != "Push" or self._rng is None or self._rng.random() > 0.3:
            return answer
        lost: Answer = Future()
        lost.set_running_or_notify_cancel()
        error = CommunicationError("the answer was lost")
        error.retryable = True
        answer.add_done_callback(lambda _: lost.set_exception(error))
        return lost

    def close(self) -> None:
        self._inner.close()


class Job:
    """Workers that have joined a server, and combine their gradients."""

    def __init__(self, clients: list[Client], service: Service) -> None:
        self.clients, self.service = clients, service

    def push(self, worker: int, step: int, **more: Any) -> Any:
        """One step of a worker, with gradients of its own; what it is answered: rows for the next, dense parameters."""
        rng = np.random.default_rng((worker, step))
        keys = torch.from_numpy(rng.integers(0, 12, 8))
        found = route(keys, 1)
        tables = [
            TablePush(
                table,
                0.5,
                found.grouped,
                torch.from_numpy(rng.standard_normal((len(found.grouped), WIDTH)).astype(np.float32)),
                found.offsets.tolist(),
                counts=torch.ones(len(found.grouped), dtype=torch.uint32) if table else None,
            )
            for table in range(2)
        ]
        dense: list[list[Any]] = [[rng.standard_normal(NUM_DENSE).astype(np.float32)]]
        following = make_lookup(Request(0, (keys + worker,)), WIDTH, 1, counts=False)
        gradients = Gradients(step, tables, dense, {0: 0.1}, steps=step + 1)
        pending = self.clients[worker].push(gradients, want_dense=True, lookups=[following], is_awaited=True, **more)
        ((_, (rows, *parameters)),) = pending.results()
        return np.array(rows), np.array(parameters[0])

    def step(self, step: int) -> list[Any]:
        return in_threads(*(lambda w=w: self.push(w, step) for w in range(len(self.clients))))

    def stats(self) -> dict[str, int]:
        return self.service.state.stats.counts()

    def everything(self) -> list[Any]:
        """Rows with their state, and dense parameters, as the server has them."""
        holdings = self.service.state.held
        tables = [table.export(0, table.num_shards) for table in holdings.tables]
        return [
            *({name: np.array(one).tobytes() for name, one in table.items()} for table in tables),
            *holdings.read_dense(),
        ]


@contextmanager
def joined(
    num_workers: int = NUM_WORKERS, *, is_combined: bool = True, rng: random.Random | None = None, kind: str = "UNIX"
) -> Iterator[Job]:
    with served(kind) as one:
        clients = [Client([Lossy(one.transport(), rng)], worker, job(num_workers)) for worker in range(num_workers)]
        try:
            for client in clients:
                client.declare()
            clients[0].start([[np.zeros(NUM_DENSE, np.float32)]])
            if is_combined:
                in_threads(*(lambda c=c: combine(c, strategy(), "combine") for c in clients))
            yield Job(clients, one.service)
        finally:
            for client in clients[::-1]:
                client.close()


def same(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@pytest.mark.parametrize("kind", ["UNIX", "GRPC"])
def test_workers_of_one_machine_get_the_bits_of_workers_that_push_alone(kind: str) -> None:
    with joined(is_combined=False) as alone, joined(kind=kind) as together:
        for step in range(5):
            for found, wanted in zip(together.step(step), alone.step(step), strict=True):
                same(found, wanted)
        same(together.everything(), alone.everything())
        assert together.stats()["pushes"] == alone.stats()["pushes"] == 5 * NUM_WORKERS
        assert together.service.state.ledger.history(2) == (5, b"")


def test_a_push_that_is_sent_again_is_applied_once() -> None:
    with joined(is_combined=False) as alone, joined(rng=random.Random(1)) as together:
        for step in range(12):
            for found, wanted in zip(together.step(step), alone.step(step), strict=True):
                same(found, wanted)
        same(together.everything(), alone.everything())
        assert together.stats()["repeated_pushes"] > 2


def test_a_worker_whose_connection_is_lost_pushes_again() -> None:
    with joined(2, is_combined=False) as alone, joined(2) as together:
        alone.step(0)
        transport = together.clients[1].transports[0]
        assert isinstance(transport, CombinedTransport)
        (waiting,) = started(lambda: together.push(1, 0))
        wait_until(lambda: bool(transport.awaited(together.clients[1].caller(0))), LIMIT_S, "the push to be kept")
        assert transport._client is not None
        transport._client.close()
        together.push(0, 0)
        waiting.result(LIMIT_S)
        same(together.everything(), alone.everything())
        alone.step(1)
        together.step(1)
        same(together.everything(), alone.everything())


def test_an_answer_that_is_asked_for_again_comes_from_the_server() -> None:
    with joined(2) as together:
        first = together.step(0)
        together.clients[1]._sequence -= 1  # as if its answer had been lost
        same(together.push(1, 0), first[1])
        assert together.stats()["pushes"] == 2
        assert together.stats()["repeated_pushes"] == 1


def test_who_waits_is_told_for_whom_and_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "0.5")
    with joined(3) as together:
        (waiting,) = started(lambda: together.push(0, 0))
        client = together.clients[0]
        transport = client.transports[0]
        wait_until(lambda: transport.awaited(client.caller(0)) is not None, LIMIT_S, "the push to be kept")
        voice = voice_of(transport, client.caller(0), "Push", waits_for_others=True)
        awaited = voice.awaited()
        assert awaited.workers == (1, 2)
        assert awaited.what == "the gradients of workers 1 and 2, to combine them with those of this machine"
        with pytest.raises(DeadlineError, match=r"for step 0: no gradients from workers 1 and 2, to combine them"):
            waiting.result(LIMIT_S)


def test_an_error_reaches_every_worker() -> None:
    with joined(2) as together:
        together.service.core.failure = "the disk is broken"
        errors = in_threads(*(lambda w=w: _error(lambda: together.push(w, 0)) for w in range(2)))
        endpoint = together.clients[0].transports[0].endpoint
        assert [str(error) for error in errors] == [f"server {endpoint}: the disk is broken"] * 2
    with joined(2) as together:
        errors = in_threads(*(lambda w=w: _error(lambda: together.push(w, w)) for w in range(2)))
        for error in errors:
            assert "worker 1 pushed step 1, and worker 0, of the same machine, step 0" in str(error)


def test_workers_that_leave_or_end_are_not_waited_for() -> None:
    with joined(3) as together:
        together.step(0)
        together.clients[2].leave()
        in_threads(lambda: together.push(0, 1), lambda: together.push(1, 1))
        (leaving,) = started(together.clients[0].leave)  # the others need it
        assert together.push(1, 2)
        assert not leaving.done()
        together.clients[1].leave()
        leaving.result(LIMIT_S)
        assert together.service.state.rounds.version == 3
    with joined(2) as together:
        (waiting,) = started(lambda: _error(lambda: together.push(1, 0)))
        transport = together.clients[1].transports[0]
        wait_until(lambda: bool(transport.awaited(together.clients[1].caller(0))), LIMIT_S, "the push to be kept")
        together.clients[0].close()
        assert "has ended" in str(waiting.result(LIMIT_S))


def combine_on(machine: str, client: Client) -> None:
    """Combine as a worker of some machine."""
    _here.machine = machine
    combine(client, strategy(), "combine")


_here = threading.local()


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread says which machine it is on."""
    monkeypatch.setattr(combine_module, "_machine", lambda: _here.machine)


@pytest.mark.usefixtures("machines")
def test_two_machines_give_the_same_bits_in_every_run_and_nearly_those_of_one() -> None:
    found = []
    for _ in range(2):
        with joined(5, is_combined=False) as apart, joined(5, is_combined=False) as alone:
            in_threads(*(lambda w=w, c=c: combine_on("abbab"[w], c) for w, c in enumerate(apart.clients)))
            assert [client.combiner is not None for client in apart.clients] == [True, True, False, False, False]
            for step in range(5):
                for rows, others in zip(apart.step(step), alone.step(step), strict=True):
                    for one, other in zip(rows, others, strict=True):
                        assert one == pytest.approx(other, abs=1e-6)
            found.append(apart.everything())
            assert apart.stats()["pushes"] == 5 * 5
            for client in apart.clients[::-1]:  # a machine's first worker waits for the others
                client.leave()
    same(*found)


@pytest.mark.usefixtures("machines")
def test_a_machine_with_one_worker_combines_nothing() -> None:
    with joined(2, is_combined=False) as apart:
        in_threads(*(lambda w=w, c=c: combine_on(str(w), c) for w, c in enumerate(apart.clients)))
        assert not any(isinstance(client.transports[0], CombinedTransport) for client in apart.clients)
        apart.step(0)


def _error(call: Callable[[], object]) -> FleetError:
    with pytest.raises(FleetError) as caught:
        call()
    return caught.value


def test_what_cannot_be_combined_is_refused() -> None:
    check_combining(strategy(), job(), None)
    with pytest.raises(UsageError, match="'machine': gradients of several workers are added in sync mode only"):
        check_combining(strategy(), job(mode="async"), None)
    with pytest.raises(UsageError, match="'machine': in a durable job a worker may be started again alone"):
        check_combining(strategy(), job(), object())  # type: ignore[arg-type]
    table = TableSpec("a", 2, rules.SGD(), initializers.Constant(0), entries.AlwaysEntry(), gradient_format="int8")
    with pytest.raises(UsageError, match="'machine': only float32 is added, and table 'a' travels otherwise"):
        check_combining(strategy(), job(tables=(table,)), None)
