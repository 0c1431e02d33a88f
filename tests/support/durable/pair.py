"""A server and its copy in this process, each with a folder of its own; they take each other's place by terms."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

import numpy as np

from fleet.jobfiles.terms import Term, Terms
from fleet.ps.durable.durability import Durability
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.standby import standby
from fleet.ps.standby.standing import Standing
from fleet.ps.steps.state import ServerState
from fleet.ps.wire.transport import LocalTransport, Transport
from support.processes import wait_until

LIMIT_S = 60.0
WIDTH, NUM_KEYS = 128, 1_500  # more rows than the table may have in memory
JOB = JobSpec(
    *(1, 1, "async"),
    tables=(
        TableSpec("ads", WIDTH, rules.Adagrad(0.1), initializers.Uniform(-1, 1), entries.AlwaysEntry(), memory=1 << 20),
        TableSpec("few", 2, rules.SGD(1.0), initializers.Constant(0.0), entries.AlwaysEntry()),
    ),
)


def digest(state: ServerState) -> str:
    """All rows of a server, and what it knows besides."""
    found = hashlib.sha256()
    for table in state.held.tables:
        rows = table.export(0, table.num_shards)
        order = np.argsort(rows["keys"])
        for name in sorted(rows):
            found.update(rows[name][order].tobytes() if len(rows[name]) == len(order) else rows[name].tobytes())
    told = state.to_json()
    found.update(
        repr([told[name] for name in ("instance", "ledger", "rounds", "clock", "meetings", "pieces")]).encode()
    )
    return found.hexdigest()


class Pair:
    """A server whose copy is listed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self._number = self._num_made = self._sequence = 0
        self._services: dict[str, Service] = {}
        self._terms: dict[str, Terms] = {}
        self._stack.enter_context(mock.patch.object(standby, "_reach", self._connect))

    def __enter__(self) -> Pair:
        self._server, self._copy = self._next_name(), ""
        self._decide()
        self.begin(self._server)
        self._declare()
        self.add_copy()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._services):
            self.end(name)
        self._stack.close()

    @property
    def server(self) -> Service:
        return self._services[self._server]

    @property
    def copy(self) -> Service:
        return self._services[self._copy]

    def name(self, *, is_copy: bool) -> str:
        """By which `begin`, `end` and `folder` know the server, or its copy."""
        return self._copy if is_copy else self._server

    def folder(self, name: str) -> Path:
        """Where a process keeps its journal."""
        return self._folder / name.partition(":")[0] / "server-0"

    def begin(self, name: str) -> Service:
        """Begin a process, or begin it again."""
        standing = Standing(self._terms[name], name, None if name == self._server else 0, is_sync=True)
        made = Service(journal=(self.folder(name), "OS"), standing=standing)
        self._services[name] = made
        return made

    def end(self, name: str) -> None:
        """End a process; its folder stays."""
        self._services.pop(name).close()

    def train(self, rng: np.random.Generator, num_pushes: int = 1) -> None:
        """Push gradients of some rows."""
        for _ in range(num_pushes):
            self._sequence += 1
            keys = [np.sort(rng.choice(num, num // 10, replace=False)).astype(np.int64) for num in (NUM_KEYS, 200)]
            tensors = [
                one for key, width in zip(keys, (WIDTH, 2), strict=True) for one in (key, _floats(rng, key, width))
            ]
            tables = [ps_pb2.PushRequest.Table(table=table, lr=0.1) for table in (0, 1)]
            header = ps_pb2.PushRequest.Header(
                caller=self._caller(1), sequence=self._sequence, steps=self._sequence, tables=tables
            )
            self.server.handle("Push", header, tensors)

    def fill(self) -> None:
        """Make every row, most of which go to the disk."""
        self._sequence += 1
        keys = np.arange(NUM_KEYS, dtype=np.int64)
        header = ps_pb2.PushRequest.Header(
            caller=self._caller(1), sequence=self._sequence, tables=[ps_pb2.PushRequest.Table(table=0, lr=0.1)]
        )
        self.server.handle("Push", header, [keys, np.ones((NUM_KEYS, WIDTH), np.float32)])

    def snapshot(self, service: Service) -> None:
        """Have a process take a snapshot; the segments before it stay."""
        own = durability_of(service)
        with own.snapshotting, mock.patch.object(own.journal, "drop_before"):
            own._write_snapshot()

    def settle(self) -> None:
        """Return when the copy has made all changes of its server, and may take its place."""
        wait_until(self.is_settled, LIMIT_S, "the copy to have what its server has")

    def add_copy(self) -> None:
        """Fill a copy, and list it."""
        name = self._next_name()
        self._terms[name].use(self._term())
        self._copy = name
        self.begin(name)
        self.settle()
        self._decide()
        self.settle()

    def drop_copy(self) -> None:
        """The server goes on without a copy."""
        self.end(self._copy)
        self._copy = ""
        self._decide()
        wait_until(lambda: self.server.core.term == self._number, LIMIT_S, "the server to hear of it")

    def promote(self) -> None:
        """The copy is the server, and gets a copy of its own."""
        self.end(self._server) if self._server in self._services else None
        self._server, self._copy = self._copy, ""
        self._decide()
        wait_until(lambda: not self.server.core.is_copy, LIMIT_S, "the copy to take the place of its server")
        self.add_copy()

    def is_settled(self) -> bool:
        """Whether the copy has what its server has, and knows that it is whole."""
        copies, following = _standby(self.server).copies, _standby(self.copy)._following
        assert copies is not None
        assert following is not None
        journal = durability_of(self.server).journal
        told = copies._told == (following._name, self._number)
        is_filled = following._segment == journal.end[0] and not following._failure
        return told and is_filled and copies.lag[0] == 0 and following.position == journal.lsn

    def _next_name(self) -> str:
        self._num_made += 1
        name = f"machine-{self._num_made}:1"
        self._terms[name] = Terms(self._folder / name.partition(":")[0])
        self._terms[name].folder.mkdir(parents=True)
        return name

    def _term(self) -> Term:
        return Term(self._number, (self._server,), (self._copy,))

    def _decide(self) -> None:
        self._number += 1
        for name in filter(None, (self._server, self._copy)):
            self._terms[name].use(self._term())

    def _declare(self) -> None:
        for incarnation in (0, 1):
            header = ps_pb2.DeclareRequest.Header(caller=self._caller(incarnation), job=JOB.to_json(), life=1)
            self.server.handle("Declare", header, ())
        self.fill()

    def _caller(self, incarnation: int) -> ps_pb2.Caller:
        return ps_pb2.Caller(incarnation=incarnation, term=self._number)

    def _connect(self, endpoint: str) -> Transport:
        return LocalTransport(_Door(self, endpoint), endpoint)


class _Door:
    """Where a copy finds the process that is at an endpoint now."""

    def __init__(self, pair: Pair, endpoint: str) -> None:
        self._pair, self._endpoint = pair, endpoint

    def handle(self, method: str, header: Any, tensors: Any) -> Any:
        return self._pair._services[self._endpoint].handle(method, header, tensors)


def durability_of(service: Service) -> Durability:
    assert service.core.durability is not None
    return service.core.durability


def _standby(service: Service) -> standby.Standby:
    assert service.standby is not None
    return service.standby


def _floats(rng: np.random.Generator, keys: Any, width: int) -> Any:
    return rng.standard_normal((len(keys), width)).astype(np.float32)
