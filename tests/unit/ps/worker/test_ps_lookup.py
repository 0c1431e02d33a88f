"""Lookups of a worker: what was prefetched and is not used is let go, and a module stays on its device."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.errors import UsageError
from fleet.ps.job.staging import download, host_buffer, upload, wait_for
from fleet.ps.worker.asking.lookup import Request, make_lookup
from fleet.ps.worker.parts import meters

CPU = torch.device("cpu")


def test_ids_and_the_distinct_ones_are_counted_without_padding() -> None:
    before = meters.counts()
    sources = torch.tensor([[7, 3], [7, 0]]), torch.tensor([0, 3, 9])
    make_lookup(Request(0, sources, paddings=(0, None)), 4, 2, counts=False)
    grown = {name: meters.counts()[name] - before.get(name, 0) for name in ("ids", "keys")}
    assert grown == {"ids": 6, "keys": 4}  # 7 3 7 and 0 3 9, of which 0, 3, 7 and 9 travel
    told = {sample.name: sample.value for sample in meters.read()}
    assert told["fleet_worker_ids_total"] == meters.counts()["ids"]
    assert told["fleet_worker_keys_total"] == meters.counts()["keys"]


@contextmanager
def job(model: nn.Module, *, is_async: bool) -> Iterator[tuple[Fleet, torch.optim.Optimizer]]:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = is_async
    own = Fleet()
    own.init(strategy=strategy)
    own.distributed_model(model)
    optimizer = own.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    try:
        own.init_worker()
        yield own, optimizer
        own.stop_worker()
    finally:
        own.shutdown()


def model_of_one_table() -> nn.Sequential:
    rows = fleet.nn.Embedding(4, table="ads", rule=fleet.rules.SGD(lr=0.1))
    return nn.Sequential(rows, nn.Flatten(), nn.Linear(8, 1))


@pytest.mark.parametrize("is_async", [False, True])
def test_unused_rows_are_let_go_with_one_warning(is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    model = model_of_one_table()
    with caplog.at_level(logging.WARNING), job(model, is_async=is_async) as (own, optimizer):
        for ids in own.prefetch([torch.randint(0, 9, (5, 2)) for _ in range(8)], model):
            model(ids.clone()).sum().backward()  # as a copy to a GPU would be: other tensors than were prefetched
            optimizer.step()
            optimizer.zero_grad()
        rows = model[0]
        assert isinstance(rows, fleet.nn.Embedding)
        worker = rows.worker
        assert len(worker._lookups._ahead) <= 2
        assert len(worker.policy._pending) <= 2
    (record,) = caplog.records
    assert "rows of table 'ads' were prefetched but not used" in record.getMessage()


@pytest.mark.parametrize("is_async", [False, True])
def test_used_rows_warn_of_nothing(is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    model = model_of_one_table()
    with caplog.at_level(logging.WARNING), job(model, is_async=is_async) as (own, optimizer):
        for ids in own.prefetch([torch.randint(0, 9, (5, 2)) for _ in range(8)], model):
            model(ids).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not caplog.records


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        normal = fleet.initializers.Normal(std=0.5)
        self.users, self.items = (fleet.nn.Embedding(4, initializer=normal) for _ in range(2))

    def forward(self, ids: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        products: torch.Tensor = self.users(ids[0]) * self.items(ids[1])
        return products.square().sum()


def trained_towers(*, is_async: bool, is_prefetched: bool) -> dict[str, torch.Tensor]:
    """What eight batches make of two towers, each with an optimizer of its own."""
    torch.manual_seed(0)
    model, strategy, own = TwoTowers(), fleet.DistributedStrategy(), Fleet()
    strategy.a_sync = is_async
    own.init(strategy=strategy)
    own.distributed_model(model)
    towers = [own.distributed_optimizer(torch.optim.SGD(one.parameters(), lr=0.1)) for one in model.children()]
    batches = [(torch.randint(9, (5,)), torch.randint(9, (5,))) for _ in range(8)]
    ahead = own.prefetch(batches, model, keys=lambda ids: {"users": ids[0], "items": ids[1]})
    try:
        own.init_worker()
        for ids in ahead if is_prefetched else batches:
            model(ids).backward()
            for tower in towers:
                tower.step()
                tower.zero_grad()
        own.flush()
        return own.gather_state_dict(model)
    finally:
        own.shutdown()


@pytest.mark.parametrize("is_async", [False, True])
def test_prefetched_rows_are_used_with_several_optimizers(is_async: bool) -> None:
    before = meters.counts().get("ids", 0)
    trained_towers(is_async=is_async, is_prefetched=True)
    assert meters.counts()["ids"] - before == 8 * 2 * 5


def test_rows_are_prefetched_as_every_optimizer_leaves_them() -> None:
    found, expected = (trained_towers(is_async=False, is_prefetched=ahead) for ahead in (True, False))
    for name in expected:
        assert torch.equal(found[name], expected[name]), name


def test_a_module_that_moved_says_so() -> None:
    model = model_of_one_table()
    with job(model, is_async=False):
        model.to("meta")
        with pytest.raises(UsageError, match="Embedding was moved from cpu to meta after fleet.init_worker"):
            model(torch.ones(5, 2, dtype=torch.int64))
        model.to_empty(device="cpu")


def test_keys_of_several_sources() -> None:
    sources = (torch.tensor([[7, 3], [7, 9]]), torch.tensor([3]))
    lookup = make_lookup(Request(0, sources), 2, num_servers=2, counts=False)
    assert lookup.route.grouped[lookup.inverse].tolist() == [7, 3, 7, 9, 3]


def test_nothing_is_copied_in_host_memory() -> None:
    tensor = torch.ones(3)
    assert upload(tensor, CPU) is tensor
    assert download(tensor) is tensor
    assert not host_buffer((2, 3), CPU).is_pinned()
    wait_for(CPU)
