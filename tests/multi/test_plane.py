"""One contract for every way to a server: in this process, by gRPC, and by the data plane in each of its kinds."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fleet.errors import CommunicationError, DeadlineError, FleetError, UsageError
from fleet.ps import entries, initializers, rules
from fleet.ps.calls import Call
from fleet.ps.core import EVERYBODY
from fleet.ps.formats import decoded_rows, encoded_rows
from fleet.ps.grpc_client import GrpcTransport
from fleet.ps.plane_client import PlaneTransport
from fleet.ps.proto import ps_pb2
from fleet.ps.service import Service
from fleet.ps.spec import DenseBlock, DenseSpec, JobSpec, TableSpec
from fleet.ps.transport import Answer, Transport
from fleet.strategy.wire import FORMATS
from support.plane import KINDS, PLANES, Served, plane_transport, served
from support.processes import wait_until

LIMIT_S = 60.0
WAIT_MS = 60_000
WIDTH, NUM_DENSE = 3, 5
KEYS = np.array([1, 2, -7], np.int64)
ONES = np.ones((3, WIDTH), np.float32)
DENSE = np.ones(NUM_DENSE, np.float32)


def job(mode: str = "async", num_workers: int = 1) -> JobSpec:
    tables = (
        TableSpec("ads", WIDTH, rules.SGD(), initializers.Uniform(-1, 1), entries.AlwaysEntry(), unseen="initial"),
        TableSpec("users", WIDTH, rules.SGD(), initializers.Constant(2.0), entries.AlwaysEntry(), unseen="zeros"),
    )
    dense = DenseSpec((rules.SGD(),), (("w", (NUM_DENSE,)),), (DenseBlock("w", 0, NUM_DENSE, 0, 0),))
    return JobSpec(num_workers, 1, mode, "error", tables, dense)


class Worker:
    """A worker that makes its calls by hand."""

    def __init__(self, transport: Transport, spec: JobSpec, index: int = 0, incarnation: int = 1) -> None:
        self.transport = transport
        self.caller = ps_pb2.Caller(worker=index, incarnation=incarnation)
        self.sequence = 0
        declared = self.ask("Declare", ps_pb2.DeclareRequest.Header(caller=self.caller, job=spec.to_json()))[0]
        self.caller.instance = declared.instance
        self.ask("Start", ps_pb2.StartRequest.Header(caller=self.caller), 0 * DENSE)

    def begin(self, method: str, header: Any, *tensors: Any, timeout_s: float = LIMIT_S) -> Answer:
        return self.transport.call(method, header, tensors, timeout_s)

    def ask(self, method: str, header: Any, *tensors: Any) -> tuple[Any, list[NDArray[np.float32]]]:
        reply, found = self.begin(method, header, *tensors).result(LIMIT_S)
        return reply, [np.frombuffer(one, np.float32) for one in found]

    def pull_header(self, **fields: Any) -> ps_pb2.PullRequest.Header:
        return ps_pb2.PullRequest.Header(caller=self.caller, **fields)

    def push_header(self, *, sequence: int | None = None, **fields: Any) -> ps_pb2.PushRequest.Header:
        self.sequence += sequence is None
        tables = fields.pop("tables", [ps_pb2.PushRequest.Table(table=0, lr=0.5)])
        number = self.sequence if sequence is None else sequence
        return ps_pb2.PushRequest.Header(caller=self.caller, sequence=number, tables=tables, **fields)

    def rows(self, keys: NDArray[np.int64] = KEYS, table: int = 0) -> NDArray[np.float32]:
        return self.ask("Pull", self.pull_header(tables=[table]), keys)[1][0].reshape(-1, WIDTH)

    def push(self, grads: NDArray[np.float32] = ONES, **fields: Any) -> Any:
        return self.ask("Push", self.push_header(**fields), KEYS, grads)[0]

    def error(self, method: str, header: Any, *tensors: Any) -> FleetError:
        error = self.begin(method, header, *tensors).exception(LIMIT_S)
        assert isinstance(error, FleetError)
        return error


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one
        if one.plane is not None:  # it was not all done by gRPC
            assert one.plane._server.counts()["connections"] > 0


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one


def said(error: BaseException) -> str:
    """What a server has said, without the name that each way has for it."""
    text = str(error)
    return text.partition(": ")[2] if text.startswith("server 127.") else text


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
    bad = ONES.copy()
    bad[1, 2] = np.nan
    unknown = [ps_pb2.PushRequest.Table(table=7, lr=0.5)]
    without = worker.push_header()
    without.caller.worker = 9
    calls: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("Push", worker.push_header(), (KEYS, bad)),
        ("Push", worker.push_header(), (KEYS, ONES[:2])),
        ("Push", worker.push_header(), (KEYS.tobytes()[:-3], ONES)),
        ("Push", worker.push_header(), (KEYS,)),
        ("Push", worker.push_header(), (KEYS, ONES, ONES)),
        ("Push", worker.push_header(tables=unknown), (KEYS, ONES)),
        ("Push", worker.push_header(dense_lrs=[0.5]), (KEYS, ONES, DENSE[1:])),
        ("Push", worker.push_header(dense_lrs=[0.5]), (KEYS, ONES, np.inf * DENSE)),
        ("Push", worker.push_header(is_delta=True), (KEYS, ONES)),
        ("Push", worker.push_header(pull_tables=[0, 0, 0]), (KEYS, ONES)),
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
        assert type(error) is CommunicationError
        assert not error.retryable
    new.push()


# Synchronous training. A service in this process cannot wait for two of one thread.


def pair(place: Served) -> tuple[Worker, Worker]:
    spec = job("sync", 2)
    return Worker(place.transport(), spec, 0), Worker(place.transport(), spec, 1)


def load_checkpoint(service: Service) -> None:
    """As the service does, when its rows are replaced."""
    with service.core.gate.closed, service.core.changed:
        service.state.loaded(0)
        service.core.tell(EVERYBODY)


def pushed(worker: Worker, grads: float, timeout_ms: int = WAIT_MS, step: int = 0) -> Answer:
    header = worker.push_header(step=step, timeout_ms=timeout_ms, pull_tables=[0])
    return worker.begin("Push", header, KEYS, np.float32(grads) * ONES, KEYS)


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
    assert type(error) is CommunicationError
    assert "a checkpoint was loaded while worker 0 waited for step 0" in str(error)


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
    leave = ps_pb2.LeaveRequest.Header(caller=two.caller, is_unfinished=True)
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
    two.ask("Leave", ps_pb2.LeaveRequest.Header(caller=two.caller))
    assert waiting.result(LIMIT_S)[0].version == 1  # type: ignore[attr-defined]


def test_a_new_life_ends_the_calls_of_the_former(sync_place: Served) -> None:
    one, two = pair(sync_place)
    waiting = pushed(one, 1.0)
    wait_until(lambda: sync_place.service.state.rounds.pushed() == {0}, LIMIT_S, "the push")
    again = Worker(sync_place.transport(), job("sync", 2), 0, incarnation=2)
    assert type(waiting.exception(LIMIT_S)) is CommunicationError
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


# The way itself.


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
    reply: Any = Call(worker.transport, "Push", header, (KEYS, ONES), LIMIT_S, LIMIT_S).result()[0]
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
        assert num_blocks() > 50
        held.clear()
        worker.transport.close()
        wait_until(lambda: not num_blocks(), LIMIT_S, "the end of blocks")


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
    gc.collect()
    assert [one() for one in seen] == [None] * 3
    wait_until(lambda: threads() <= before + 2, LIMIT_S, "the end of threads")
    assert len(os.listdir("/proc/self/fd")) <= files + 3
