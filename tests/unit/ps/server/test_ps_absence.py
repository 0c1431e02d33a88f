"""Steps that go on without a worker, also where the server could not write that down at first."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import DeadlineError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal import writer
from fleet.ps.journal.files import write_all
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.processes import wait_until

pytestmark = pytest.mark.timeout(60)
TABLE = TableSpec("ads", 2, rules.SGD(lr=1.0), initializers.Constant(0.0), entries.AlwaysEntry())
JOB = JobSpec(num_workers=2, num_servers=1, mode="sync", nonfinite="skip", tables=(TABLE,))


def declared(folder: Path) -> Service:
    service = Service(journal=(folder, "OS"))
    for worker in range(2):
        caller = ps_pb2.Caller(worker=worker, incarnation=1)
        header = ps_pb2.DeclareRequest.Header(caller=caller, job=JOB.to_json(), absent_after_ms=100)
        service.handle("Declare", header, ())
    return service


def push(service: Service, gradient: float = 1.0, timeout_ms: int = 30_000) -> Any:
    header = ps_pb2.PushRequest.Header(
        caller=ps_pb2.Caller(worker=0, incarnation=1),
        sequence=1,
        timeout_ms=timeout_ms,
        tables=[ps_pb2.PushRequest.Table(table=0, lr=1.0)],
    )
    return service.handle("Push", header, [np.array([7]), np.full((1, 2), gradient, np.float32)])[0]


@pytest.mark.parametrize("num_written", [0, 1], ids=["the absence", "the step"])
def test_a_disk_that_was_full_does_not_keep_a_step_waiting(
    num_written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = declared(tmp_path)
    has_failed, left = threading.Event(), [num_written]

    def full(file: int, buffers: Any) -> None:
        if left[0]:
            left[0] -= 1
            write_all(file, buffers)
            return
        has_failed.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer, "write_all", full)
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(push(service)), daemon=True)
    waiting.start()
    assert has_failed.wait(10)
    monkeypatch.setattr(writer, "write_all", write_all)
    wait_until(lambda: bool(answers), 20, "the step")
    assert (answers[0].version, list(answers[0].participants)) == (1, [0])
    service.close()


def test_what_is_skipped_in_such_a_step_counts_once(tmp_path: Path) -> None:
    service = declared(tmp_path)
    push(service, gradient=float("nan"))
    assert service.state.stats.counts()["skipped"] == 1
    service.close()


def test_one_that_is_lost_between_two_servers_is_waited_for_on_the_second() -> None:
    """Server 0 has done the step with its push, so server 1 must not do it without."""
    job = replace(JOB, num_servers=2)
    services = [Service(), Service()]
    for server, service in enumerate(services):
        for worker in range(2):
            caller = ps_pb2.Caller(worker=worker, incarnation=1)
            header = ps_pb2.DeclareRequest.Header(
                caller=caller, job=job.to_json(), server_index=server, absent_after_ms=60_000
            )
            service.handle("Declare", header, ())
    first = threading.Thread(target=lambda: pass_by(services[0], 1), daemon=True)
    first.start()
    assert list(pass_by(services[0], 0).participants) == [0, 1]
    first.join(20)
    with pytest.raises(DeadlineError, match="worker 1"):
        pass_by(services[1], 0, [0, 1], timeout_ms=300)
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(pass_by(services[1], 0, [0, 1])), daemon=True)
    waiting.start()
    assert pass_by(services[1], 1, [0, 1]).version == 1  # the next life sends it again
    waiting.join(20)
    assert answers[0].version == 1
    for service in services:
        service.close()


def pass_by(service: Service, worker: int, participants: Sequence[int] = (), timeout_ms: int = 20_000) -> Any:
    """Push nothing but the step."""
    header = ps_pb2.PushRequest.Header(
        caller=ps_pb2.Caller(worker=worker, incarnation=1), sequence=1, timeout_ms=timeout_ms, participants=participants
    )
    return service.handle("Push", header, ())[0]
