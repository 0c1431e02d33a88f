"""Pushes of a synchronous step where servers have copies: each is written down before it counts."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import CommunicationError, DeadlineError, UsageError
from fleet.ps.durable.durability import Copied
from fleet.ps.job import rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.jobs import LIMIT_S
from support.parity.training import started
from support.plane.fuzz_requests import JOB

pytestmark = pytest.mark.timeout(60)

TWO_GROUPS = DenseSpec(
    (rules.SGD(), rules.SGD()), (("w", (4,)), ("v", (4,))), (DenseBlock("w", 0, 4, 0, 0), DenseBlock("v", 0, 4, 0, 1))
)


class SlowCopy(Copied):
    """Has a record at once, but for the first when it is told so, which it has when it may."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def recorded(self, lsn: int, *, waits: bool) -> None:  # noqa: ARG002
        if not self.is_asked.is_set():
            self.is_asked.set()
            assert self.may_answer.wait(LIMIT_S)


class LateCopy(Copied):
    """Has what it is waited for, and notes that."""

    def __init__(self, service: Service) -> None:
        self.waited: list[int] = []
        self._service = service

    @property
    def awaited(self) -> int:  # type: ignore[override]
        assert self._service.core.durability is not None
        return self._service.core.durability.journal.lsn

    def wait(self, lsn: int) -> None:
        self.waited.append(lsn)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(journal=(tmp_path / "server-0", "OS"))
    made.core.term = 1
    job = replace(JOB, mode="sync", num_workers=2, num_servers=2, dense=TWO_GROUPS)
    for worker in range(2):
        caller = ps_pb2.Caller(worker=worker, incarnation=1)
        made.handle("Declare", ps_pb2.DeclareRequest.Header(caller=caller, job=job.to_json(), life=7), ())
    start = ps_pb2.StartRequest.Header(caller=ps_pb2.Caller(incarnation=1))
    made.handle("Start", start, [np.zeros(4, np.float32)] * 2)
    yield made
    made.close()


def push(service: Service, worker: int, group: int) -> Any:
    """A worker steps one of two optimizers."""
    caller = ps_pb2.Caller(worker=worker, incarnation=1)
    header = ps_pb2.PushRequest.Header(caller=caller, sequence=1, dense_groups=[group], dense_lrs=[0.1])
    return service.handle("Push", header, [np.ones(4, np.float32)])[0]


def test_workers_that_step_different_optimizers_are_told_so_before_anything_is_written(service: Service) -> None:
    copy = SlowCopy()
    assert service.core.durability is not None
    service.core.durability.copied = copy
    first = started(lambda: push(service, 0, group=0))[0]
    assert copy.is_asked.wait(LIMIT_S)
    try:
        with pytest.raises(UsageError, match="workers 0 and 1 step different optimizers"):
            push(service, 1, group=1)
    finally:
        copy.may_answer.set()
    first.result(LIMIT_S)
    assert service.core.failure is None
    push(service, 1, group=0)
    assert sorted(service.core.state.rounds.pushed()) == [0, 1]


def test_a_push_that_is_written_down_counts_though_its_step_cannot_be_made_now(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        error = CommunicationError("no room on the disk")
        error.retryable = True
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(service.pushes, "apply_if_complete", refuse)
        with pytest.raises(CommunicationError, match="no room"):
            push(service, 0, group=0)
    assert push(service, 0, group=0).was_repeated


def pull(service: Service, told_sequence: int) -> Any:
    """Worker 1 asks for the version behind the first step, and has heard that all servers have all of its pushes."""
    caller = ps_pb2.Caller(worker=1, incarnation=1, told_sequence=told_sequence)
    return service.handle("Pull", ps_pb2.PullRequest.Header(caller=caller, version=1, timeout_ms=100), ())[0]


def test_a_step_is_made_by_whoever_knows_that_all_servers_have_its_pushes(service: Service) -> None:
    """Also where the one who was told so first is lost, together with the server that made it."""
    for worker in range(2):
        push(service, worker, group=0)
    for told in (0, 7):  # nothing, and of another step
        with pytest.raises(DeadlineError):
            pull(service, told)
    assert pull(service, 1).version == 1
    assert pull(service, 1).version == 1


def test_a_server_that_has_pushes_in_its_journal_says_so(service: Service, tmp_path: Path) -> None:
    for worker in range(2):
        push(service, worker, group=0)
    shutil.copytree(tmp_path / "server-0", tmp_path / "server-1")
    again = Service(journal=(tmp_path / "server-1", "OS"))
    try:
        again.core.term = 1
        assert pull(again, 1).version == 1
    finally:
        again.close()


def test_nobody_is_told_of_a_push_that_the_copy_lacks(service: Service) -> None:
    assert service.core.durability is not None
    service.core.durability.copied = copy = LateCopy(service)
    push(service, 0, group=0)
    assert copy.waited == [copy.awaited]
    push(service, 0, group=0)  # again: the copy may lack it still
    caller = ps_pb2.Caller(worker=0, incarnation=1)
    service.handle("Norm", ps_pb2.NormRequest.Header(caller=caller, is_former=True), ())
    assert copy.waited == [copy.awaited] * 3
    push(service, 1, group=0)
    service.handle("Norm", ps_pb2.NormRequest.Header(caller=caller, sequence=1, timeout_ms=1000), ())
    assert copy.waited[3:] == [copy.awaited] * 2
