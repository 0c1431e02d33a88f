"""A table that is declared for some number of ids: the error comes when all servers together have more, not before."""

from __future__ import annotations

import pytest
import torch

from fleet.errors import UsageError
from fleet.ps.job import rules
from fleet.ps.job.difference import difference
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.initializers import Constant
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.asking.keys import route
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.sending.gradients import Gradients, TablePush


def job(max_rows: int) -> JobSpec:
    tables = tuple(
        TableSpec(name, 2, rules.SGD(), Constant(0.0), AlwaysEntry(), max_rows=most)
        for name, most in (("free", 0), ("words", max_rows))
    )
    return JobSpec(1, 2, "async", tables=tables)


def push(client: Client, keys: list[int]) -> None:
    found = route(torch.tensor(keys), 2)
    grads = torch.ones(len(found.grouped), 2)
    pushes = [TablePush(table, 0.1, found.grouped, grads, found.offsets.tolist()) for table in (0, 1)]
    client.push(Gradients(0, pushes)).results()
    client.row_limits.check()


def test_the_ceiling_is_of_all_servers_together() -> None:
    client = Client([LocalTransport(Service()), LocalTransport(Service())], 0, job(6))
    client.declare()
    push(client, [1, 2, 3, -(2**62)])
    push(client, [3, 2, 1, 4, 2**62])
    with pytest.raises(
        UsageError, match="'words' is declared for 6 ids and now has rows for 7; end this job, and raise"
    ):
        push(client, [5])
    client.close()


def test_it_is_part_of_the_declaration() -> None:
    assert difference(job(5), job(6)) == "table 'words': max_rows is 5 here, 6 in the declaration of the others"
    with pytest.raises(UsageError, match="max_rows must be >= 0, got -1"):
        job(-1)
