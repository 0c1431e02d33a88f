"""Floats in fewer bytes by every way to a server: the bits that the service itself has, and native code alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fleet import _native
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.formats import encoded_rows
from fleet.ps.wire.transport import Transport
from fleet.strategy.parameter_server import FORMATS
from support.plane.plane import KINDS, PLANES, Served, served

pytestmark = pytest.mark.timeout(120)

LIMIT_S, WAIT_MS = 60.0, 60_000
WIDTH, NUM_DENSE, NUM_STATISTICS = 10, 150, 3
STEPS = 3
Bytes = list[bytes]


def job(mode: str = "async", num_workers: int = 1, nonfinite: str = "error") -> JobSpec:
    tables = (
        TableSpec("ads", WIDTH, rules.Adagrad(lr=0.1), initializers.Uniform(-1, 1), entries.AlwaysEntry()),
        TableSpec("users", 3, rules.SGD(), initializers.Constant(2.0), entries.AlwaysEntry(), unseen="zeros"),
    )
    dense = DenseSpec(
        (rules.Adam(), RuleSpec("average")),
        (("w", (NUM_DENSE,)), ("mean", (NUM_STATISTICS,))),
        (DenseBlock("w", 0, NUM_DENSE, 0, 0), DenseBlock("mean", 0, NUM_STATISTICS, 0, 1)),
    )
    return JobSpec(num_workers, 1, mode, nonfinite, tables, dense)


class Worker:
    """Makes calls by hand, in one format."""

    def __init__(self, transport: Transport, spec: JobSpec, number: int, index: int = 0) -> None:
        self.transport, self.number, self.sequence = transport, number, 0
        self.caller = ps_pb2.Caller(worker=index, incarnation=1)
        header = ps_pb2.DeclareRequest.Header(caller=self.caller, job=spec.to_json())
        reply: Any = transport.call("Declare", header, (), LIMIT_S).result(LIMIT_S)[0]
        self.caller.instance = reply.instance
        values = np.zeros(NUM_DENSE, np.float32), np.zeros(NUM_STATISTICS, np.float32)
        transport.call("Start", ps_pb2.StartRequest.Header(caller=self.caller), values, LIMIT_S).result(LIMIT_S)
        self.draws = np.random.default_rng(index)

    def keys(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.unique(self.draws.integers(-50, 50, 40))

    def floats(self, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return self.draws.standard_normal(shape).astype(np.float32)

    def push(self, *, is_sparse: bool, **fields: Any) -> Any:
        """Gradients of both tables and both groups, and all that can be wanted back."""
        self.sequence += 1
        number: Any = self.number
        keys, users, ahead = self.keys(), self.keys(), self.keys()
        grads = [encoded_rows(self.floats(len(keys), WIDTH), number), encoded_rows(self.floats(len(users), 3), number)]
        dense = [_native.encode_vector(self.floats(NUM_DENSE), None, number)]
        if is_sparse:
            places = np.unique(self.draws.integers(0, NUM_DENSE, 70)).astype(np.int32)
            dense = [places, _native.encode_vector(self.floats(len(places)), None, number)]  # type: ignore[list-item]
        header = ps_pb2.PushRequest.Header(
            caller=self.caller,
            sequence=self.sequence,
            tables=[ps_pb2.PushRequest.Table(table=i, lr=0.5, format=number, row_format=number) for i in (0, 1)],
            dense_lrs=[0.1, 0.5],
            dense=[ps_pb2.PushRequest.Dense(format=number, is_sparse=is_sparse), ps_pb2.PushRequest.Dense()],
            want_dense=True,
            want_rows=True,
            dense_format=number,
            pull_tables=[0, 1],
            pull_formats=[number, 0],  # type: ignore[list-item]
            **fields,
        )
        tensors = (keys, grads[0], users, grads[1], *dense, self.floats(NUM_STATISTICS), ahead, users)
        return self.transport.call("Push", header, tensors, LIMIT_S)

    def pull(self, formats: list[int], dense_format: int) -> Bytes:
        keys = np.arange(-60, 60)
        header = ps_pb2.PullRequest.Header(
            caller=self.caller,
            tables=[0, 1],
            only_read=[False, True],
            dense=True,
            formats=formats,  # type: ignore[arg-type]
            dense_format=dense_format,  # type: ignore[arg-type]
        )
        return found(self.transport.call("Pull", header, (keys, keys), LIMIT_S))


def found(answer: Any) -> Bytes:
    _, tensors = answer.result(LIMIT_S)
    return [bytes(np.frombuffer(one, np.uint8)) for one in tensors]


def trained(worker: Worker) -> list[Bytes]:
    """Everything that a few steps answer, and in the end all rows and dense values, exactly and in the format."""
    answers = [found(worker.push(is_sparse=step % 2 == 1)) for step in range(STEPS)]
    return [*answers, worker.pull([worker.number, worker.number], worker.number), worker.pull([], 0)]


@pytest.fixture(params=KINDS[1:])
def place(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as one:
        yield one


@pytest.fixture
def no_python(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is answered by the book on a data plane is an error."""
    if place.kind in PLANES:
        assert place.plane is not None
        monkeypatch.setattr(place.plane, "_submit", lambda call: call.fail(13, "it went to Python"))


@pytest.mark.usefixtures("no_python")
@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_every_way_has_the_bits_of_the_service(place: Served, number: int) -> None:
    by_this = trained(Worker(place.transport(), job(), number))
    with served("LOCAL") as local:
        assert by_this == trained(Worker(local.transport(), job(), number))


@pytest.mark.usefixtures("no_python")
@pytest.mark.parametrize("nonfinite", ["error", "skip"])
def test_a_synchronous_step_of_several_formats(place: Served, nonfinite: str) -> None:
    """Workers need not agree; what each has pushed is decoded by itself."""
    finals = []
    with served("GRPC") as reference:
        for one in (place, reference):
            spec = job("sync", 3, nonfinite)
            workers = [Worker(one.transport(), spec, number, index) for index, number in enumerate((1, 3, 0))]
            for step in range(STEPS):
                pushed = [worker.push(is_sparse=step == 1, step=step, timeout_ms=WAIT_MS) for worker in workers]
                answers = [found(answer) for answer in pushed]
            finals.append((answers, workers[0].pull([], 0)))
    assert finals[0] == finals[1]


def refusals(worker: Worker) -> list[str]:
    """What is said about messages that are not what they should be; each changes nothing."""
    keys = np.array([1, 2], np.int64)
    half, whole = np.ones((2, WIDTH), np.float16), np.ones(NUM_STATISTICS, np.float32)
    vector = np.ones(NUM_DENSE, np.float16)
    nan = np.full(NUM_DENSE, np.nan, np.float16)

    def places(*some: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array(some, np.int32)

    def forms(*given: Any) -> dict[str, Any]:
        return {"dense_lrs": [0.1, 0.1], "dense": list(given)}

    def table(**fields: Any) -> ps_pb2.PushRequest.Table:
        return ps_pb2.PushRequest.Table(lr=0.5, **fields)

    def dense(**fields: Any) -> ps_pb2.PushRequest.Dense:
        return ps_pb2.PushRequest.Dense(**fields)

    fp16, sparse = dense(format=2), dense(format=2, is_sparse=True)
    calls: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
        ({"tables": [table(format=2)]}, (keys, half[:1])),
        ({"tables": [table(format=3)]}, (keys, half)),
        ({"tables": [table(format=99)]}, (keys, half)),
        ({"tables": [table(format=2, row_format=77)]}, (keys, half)),
        ({"dense_format": 44}, ()),
        ({"pull_tables": [0], "pull_formats": [1, 1]}, (keys,)),
        (forms(fp16), (vector, whole)),
        (forms(fp16, dense()), (vector[1:], whole)),
        (forms(dense(format=9), dense()), (vector, whole)),
        (forms(fp16, dense()), (nan, whole)),
        (forms(sparse, dense()), (places(3, 2), vector[:2], whole)),
        (forms(sparse, dense()), (places(3, NUM_DENSE), vector[:2], whole)),
        (forms(sparse, dense()), (places(-1, 3), vector[:2], whole)),
        (forms(sparse, dense()), (places(3, 4), vector[:3], whole)),
        (forms(sparse, dense()), (places(3, 4).tobytes()[:-1], vector[:2], whole)),
        (forms(sparse, dense()), (places(3, 4), whole)),
    ]
    said = []
    for sequence, (fields, tensors) in enumerate(calls, start=worker.sequence + 1):
        header = ps_pb2.PushRequest.Header(caller=worker.caller, sequence=sequence, **fields)
        error = worker.transport.call("Push", header, tensors, LIMIT_S).exception(LIMIT_S)
        assert error is not None, (fields, tensors)
        text = str(error)
        said.append(text.partition(": ")[2] if text.startswith("server 127.") else text)
    return said


def test_refusals_are_the_same(place: Served) -> None:
    worker = Worker(place.transport(), job(), 2)
    before = worker.pull([], 0)
    by_this = refusals(worker)
    assert worker.pull([], 0) == before
    with served("LOCAL") as local:
        assert by_this == refusals(Worker(local.transport(), job(), 2))
