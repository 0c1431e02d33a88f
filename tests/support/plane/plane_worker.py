"""A worker that makes its calls by hand, and the small job that it belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.errors import FleetError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.transport import Answer, Transport
from support.plane.plane import Served

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


def pair(place: Served) -> tuple[Worker, Worker]:
    """Both workers of a synchronous job."""
    spec = job("sync", 2)
    return Worker(place.transport(), spec, 0), Worker(place.transport(), spec, 1)


def pushed(worker: Worker, grads: float, timeout_ms: int = WAIT_MS, step: int = 0) -> Answer:
    """A push that waits for its step and pulls."""
    header = worker.push_header(step=step, timeout_ms=timeout_ms, pull_tables=[0])
    return worker.begin("Push", header, KEYS, np.float32(grads) * ONES, KEYS)


def said(error: BaseException) -> str:
    """What a server has said, without the name that each way has for it."""
    text = str(error)
    return text.partition(": ")[2] if text.startswith("server 127.") else text
