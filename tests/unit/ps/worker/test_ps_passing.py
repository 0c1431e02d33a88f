"""Passes on a server: pushes of workers that have no batch left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import UsageError
from fleet.ps.durable import durability
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal.files import snapshots_in
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.durable.server_state import everything
from support.processes import wait_until

pytestmark = pytest.mark.timeout(60)
TABLE = TableSpec("ads", 2, rules.SGD(lr=1.0), initializers.Constant(0.0), entries.AlwaysEntry())
JOB = JobSpec(num_workers=2, num_servers=1, mode="sync", nonfinite="error", tables=(TABLE,))


class Pair:
    """A server and two workers."""

    def __init__(self, folder: Path | None = None, job: JobSpec = JOB) -> None:
        self.service = Service() if folder is None else Service(journal=(folder, "OS"))
        self._sequences = [0, 0]
        for worker in range(2):
            caller = ps_pb2.Caller(worker=worker, incarnation=1)
            self.service.handle("Declare", ps_pb2.DeclareRequest.Header(caller=caller, job=job.to_json()), ())

    def push(self, worker: int, gradient: float | None, **more: Any) -> Any:
        """Push a gradient of key 7, or pass; answered at once."""
        self._sequences[worker] += 1
        header = ps_pb2.PushRequest.Header(
            caller=ps_pb2.Caller(worker=worker, incarnation=1),
            sequence=self._sequences[worker],
            step=self.service.state.rounds.version,
            is_pass=gradient is None,
            **more,
        )
        tensors: list[Any] = []
        if gradient is not None:
            header.tables.add(table=0, lr=1.0)
            tensors = [np.array([7]), np.full((1, 2), gradient, np.float32)]
        return self.service.handle("Push", header, tensors)[0]

    def row(self) -> float:
        return float(self.service.state.held.pull(0, np.array([7]))[0, 0])


@pytest.mark.parametrize("snapshot_bytes", [0, 1 << 30], ids=["from a snapshot", "from records"])
def test_the_mean_is_over_those_who_have_data_also_after_a_recovery(
    snapshot_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_BYTES", snapshot_bytes)
    pair = Pair(tmp_path)
    pair.push(0, 1.0, steps=1, position=b"first")
    pair.push(1, 3.0)
    assert pair.row() == -2.0
    pair.push(1, None)
    reply = pair.push(0, 1.0, steps=2, position=b"second")
    assert pair.row() == -3.0
    assert (list(reply.passed), reply.num_ended) == ([1], 0)
    before = everything(pair.service)["tables"]
    pair.push(0, None, steps=2)
    reply = pair.push(1, None)
    assert (list(reply.passed), reply.num_ended, reply.version) == ([0, 1], 1, 3)
    assert everything(pair.service)["tables"] == before
    assert pair.service.state.ledger.history(0) == (2, b"second")  # a pass is no step of its worker
    if not snapshot_bytes:
        wait_until(lambda: bool(snapshots_in(tmp_path)), 20, "a snapshot")
    pair.service.close()
    again = Service(journal=(tmp_path, "OS"))
    assert everything(again) == everything(pair.service)
    assert (again.state.rounds.num_ended, again.state.rounds.passed) == (1, [0, 1])
    again.close()


def test_a_worker_that_leaves_ends_the_epoch_of_one_that_passes() -> None:
    pair = Pair()
    pair.push(0, None)
    assert pair.service.state.rounds.num_ended == 0
    caller = ps_pb2.Caller(worker=1, incarnation=1)
    pair.service.handle("Leave", ps_pb2.LeaveRequest.Header(caller=caller, sequence=100), ())
    assert pair.service.state.rounds.num_ended == 1


def test_a_pass_has_no_gradients_and_belongs_to_a_step() -> None:
    said = "worker 0, step 0: a push that is a pass belongs to a synchronous step, and has no gradients"
    pair = Pair()
    with pytest.raises(UsageError, match=said):
        pair.push(0, None, dense_lrs=[1.0])
    with pytest.raises(UsageError, match=said):
        Pair(job=replace(JOB, mode="async")).push(0, None)
