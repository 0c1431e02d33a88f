"""A server with one small job, a worker that is served by its data plane, and the way there for strangers."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import messages as wire
from fleet.ps.wire.transport import Transport
from support.plane.plane import Served
from support.plane.raw_plane import LIMIT_S, connection, context_of

KEYS = np.arange(10, dtype=np.int64)
JOB = JobSpec(
    1, 1, "async", "error", (TableSpec("ads", 4, rules.SGD(), initializers.Constant(1.0), entries.AlwaysEntry()),)
)


class Place:
    """A server with a job, a worker that is served all the while, and the way to its door."""

    def __init__(self, one: Served, kind: str) -> None:
        self.served, self.kind = one, kind
        self.tls = None if one.tls is None else context_of(one.tls)
        self.transport: Transport = one.transport()
        declare: Any = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(incarnation=1), job=JOB.to_json())
        reply: Any = self.transport.call("Declare", declare, (), LIMIT_S).result(LIMIT_S)[0]
        self.caller = ps_pb2.Caller(incarnation=1, instance=reply.instance)
        self.port = reply.data_port
        self.check()

    def header(self) -> ps_pb2.PullRequest.Header:
        """Of a pull of the only table."""
        return ps_pb2.PullRequest.Header(caller=self.caller, tables=[0])

    def request(self) -> bytes:
        """A pull of all keys."""
        return wire.encode("PullRequest", self.header(), [KEYS])

    def check(self) -> None:
        """It answers, and soon."""
        _, (rows,) = self.transport.call("Pull", self.header(), (KEYS,), LIMIT_S).result(LIMIT_S)
        np.testing.assert_array_equal(np.frombuffer(rows, np.float32), np.ones(4 * len(KEYS)))
        assert self.counts()["connections"] > 0, "it was gRPC that answered"

    def counts(self) -> dict[str, int]:
        """What the server has counted."""
        assert self.served.plane is not None
        return self.served.plane._server.counts()

    def raw(self, *, is_welcome: bool = False) -> AbstractContextManager[socket.socket]:
        """A connection for bytes of our own choice."""
        assert self.served.grpc is not None
        port = 0 if self.kind == "SHM" else self.port
        return connection(self.served.grpc.endpoint, port, is_welcome=is_welcome, tls=self.tls)
