"""Rows by value on a server, call by call: written once, kept in the journal, and there before a job begins."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fleet.errors import UsageError
from fleet.nn import Embedding
from fleet.ps.durable import durability
from fleet.ps.job import rules
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.initializers import Constant
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.calling.client import Client
from support.durable.server_state import everything
from support.parity.training import Trainer, exported, joined, served, strategy

pytestmark = pytest.mark.timeout(120)

WIDE, NARROW = torch.arange(24.0).view(6, 4) / 10, -torch.arange(9.0).view(3, 3)


def two() -> nn.ModuleDict:
    """Two tables, of which one begins with rows."""
    rows = {"wide": Embedding.from_pretrained(WIDE, freeze=False), "narrow": Embedding(3, table="ids")}
    return nn.ModuleDict({**rows, "layer": nn.Linear(7, 1)})


def step(one: Trainer, ids: torch.Tensor) -> None:
    model = dict(one.model.named_children())
    one.optimizer.zero_grad()
    model["layer"](torch.cat([model["wide"](ids), model["narrow"](ids)], 1)).sum().backward()
    one.optimizer.step()


SPECS = (
    TableSpec("a", 2, rules.Adagrad(lr=0.1), Constant(0.0), AlwaysEntry()),
    TableSpec("b", 3, rules.SGD(lr=0.1), Constant(0.0), AlwaysEntry()),
)


def declared(service: Service, mode: str = "async", **more: Any) -> Client:
    client = Client([LocalTransport(service)], 0, JobSpec(1, 1, mode, tables=SPECS, **more))
    client.declare()
    return client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "server-0"


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("snapshot_bytes", [0, 1 << 30])
def test_rows_survive_the_death_of_a_server(
    mode: str, snapshot_bytes: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written, what was trained since, and what was written again: bit for bit, also through snapshots."""
    monkeypatch.setattr(durability, "SNAPSHOT_BYTES", snapshot_bytes)
    monkeypatch.setattr(durability, "ROWS_AT_ONCE", 7)
    service = Service(journal=(folder, "OS"))
    model = two()
    with served([service]) as (endpoints, _), joined(endpoints, model=model, strategy=strategy(mode)) as one:
        for turn in range(8):
            step(one, torch.arange(turn, turn + 4))
            one.fleet.load_rows("ids", torch.arange(turn, turn + 3), NARROW * turn)
            step(one, torch.arange(6))
        one.fleet.flush()
        assert service.core.durability is not None
        with service.core.durability.snapshotting:
            copy = Path(shutil.copytree(folder, tmp_path / "died", ignore=shutil.ignore_patterns("lock")))
        again = Service(journal=(copy, "OS"))
        again.close()
        assert everything(again) == everything(service)


def test_a_message_that_comes_again_writes_nothing(folder: Path) -> None:
    service = Service(journal=(folder, "OS"))
    client = declared(service)
    asked = ps_pb2.AssignRequest.Header(caller=client.caller(0), sequence=1, table=0)
    old, new = ([np.array([3]), np.full((1, 2), value, np.float32)] for value in (1, 2))
    service.handle("Assign", asked, old)
    client.next_number()
    assert client.assign(0, torch.tensor([3]), torch.full((1, 2), 2.0)) == 0
    service.handle("Assign", asked, old)
    assert np.array_equal(exported(service)["values"].view(np.float32).reshape(-1), new[1].reshape(-1))
    service.close()
    again = Service(journal=(folder, "OS"))
    again.handle("Assign", asked, old)
    assert np.array_equal(exported(again)["values"].view(np.float32).reshape(-1), new[1].reshape(-1))
    with pytest.raises(UsageError, match="rows of worker 0, table 'b': 1 tensors instead of keys and rows"):
        again.handle("Assign", ps_pb2.AssignRequest.Header(caller=asked.caller, sequence=3, table=1), old[:1])
    with pytest.raises(UsageError, match="there is no table 2"):
        again.handle("Assign", ps_pb2.AssignRequest.Header(caller=asked.caller, sequence=3, table=2), old)
    with pytest.raises(UsageError, match="they hold a NaN or an Inf; nothing was written"):
        again.handle("Assign", ps_pb2.AssignRequest.Header(caller=asked.caller, sequence=3), [old[0], old[1] * np.nan])
    again.close()


def test_a_job_with_first_rows_has_begun_when_worker_0_says_so() -> None:
    """Who pulls what comes with the start waits until then."""
    service = Service()
    client = declared(service, first_rows=("a",))
    assert not service.state.held.is_started
    client.assign(0, torch.tensor([3]), torch.ones(1, 2))
    client.start([[]])
    assert service.state.held.is_started
    service.close()
    with pytest.raises(UsageError, match=r"first_rows\[0\]"):
        JobSpec(1, 1, "sync", tables=SPECS, first_rows=("c",))
