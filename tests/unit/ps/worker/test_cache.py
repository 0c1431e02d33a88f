"""A worker's cache of rows: how old they get, what is counted, and that no gradient is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.nn import Embedding
from fleet.ps.server.service import Service
from fleet.ps.worker.asking import meters
from support.parity.training import Trainer, dense_of, in_threads, joined, rows_of, served, strategy

pytestmark = pytest.mark.timeout(300)

NUM_STEPS = 12


def counter() -> nn.Module:
    """Each gradient adds one to a row."""
    zeros = fleet.initializers.Constant(0.0)
    return Embedding(1, "ads", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def seen(one: Trainer, *ids: int) -> list[float]:
    """A step that adds one to each row; what the rows were in the forward pass."""
    one.optimizer.zero_grad()
    rows = one.model(torch.tensor(ids))
    (-rows.sum()).backward()
    one.optimizer.step()
    values: list[float] = rows.detach().reshape(-1).tolist()
    return values


def values(services: Sequence[Service]) -> dict[int, float]:
    """What the servers have."""
    return {key: float(np.frombuffer(row[0], np.float32)[0]) for key, row in rows_of(services).items()}


def counted() -> dict[str, int]:
    return {name.removeprefix("cache."): value for name, value in meters.counts().items() if name.startswith("cache.")}


@pytest.mark.parametrize("mode", ["async", "half"])
def test_without_staleness_nothing_changes(mode: str) -> None:
    found = []
    for more in ({}, {"cache_rows": 1000, "cache_staleness": 0}):
        with served(2) as (endpoints, services), joined(endpoints, strategy=strategy(mode, **more)) as one:
            for step in range(NUM_STEPS):
                one.train(step, step + 1)
                one.fleet.flush()  # or async would not be the same twice
            found.append((dense_of(one.model), rows_of(services)))
    assert found[0] == found[1]


@pytest.mark.parametrize("staleness", [1, 3])
def test_no_row_is_older_than_the_bound(staleness: int) -> None:
    given = strategy("half", cache_rows=1000, cache_staleness=staleness)
    before = counted()
    with served(2) as (endpoints, services):
        with joined(endpoints, model=counter(), optimizer=sgd, strategy=given) as one:
            ages = [step - value for step in range(NUM_STEPS) for value in seen(one, 3, 4)]
            assert set(ages) == set(range(staleness + 1))
            one.fleet.flush()
        # All gradients are on the servers.
        assert values(services) == {3: 12.0, 4: 12.0}
    now = counted()
    gained = {name: now[name] - before.get(name, 0) for name in now}
    num_asked = 2 * NUM_STEPS // (staleness + 1)
    assert gained["misses"] == 2
    assert gained["refreshed"] == num_asked - 2
    assert gained["hits"] == 2 * NUM_STEPS - num_asked
    assert gained["age_steps"] == sum(ages)
    assert now["oldest"] >= staleness


def test_two_workers_that_prefetch() -> None:
    """Every batch is trained, also those whose rows are all in the cache, so that there is nothing to ask for."""
    pulled: list[int] = []

    def work(index: int) -> None:
        given = strategy("async", cache_rows=1000, cache_staleness=5)
        with joined(endpoints, index, 2, model=counter(), optimizer=sgd, strategy=given) as one:
            batches = [torch.tensor([step % 2, 2, 10 + index]) for step in range(40)]
            for ids in one.fleet.prefetch(batches, one.model):
                rows = one.model(ids)
                one.optimizer.zero_grad()
                (-rows.sum()).backward()
                one.optimizer.step()
            one.fleet.flush()
            pulled.append(sum(server["pulled_rows"] for server in one.stats()))

    with served(2) as (endpoints, services):
        in_threads(lambda: work(0), lambda: work(1))
        found = values(services)
    assert found == {0: 40.0, 1: 40.0, 2: 80.0, 10: 40.0, 11: 40.0}
    assert max(pulled) < 100, "without a cache 240"


def test_evaluation_sees_what_the_servers_have() -> None:
    given = strategy("half", cache_rows=1000, cache_staleness=100)
    with joined(model=counter(), optimizer=sgd, strategy=given) as one:
        for _ in range(3):
            assert seen(one, 5) == [0.0]
        one.model.eval()
        with torch.no_grad():
            assert one.model(torch.tensor([5])).tolist() == [[3.0]]
        one.model.train()
        assert seen(one, 5) == [0.0]


def test_a_model_that_is_loaded_is_not_mixed_with_old_rows(tmp_path: Path) -> None:
    given = strategy("half", cache_rows=1000, cache_staleness=100)
    with joined(model=counter(), optimizer=sgd, strategy=given) as one:
        seen(one, 5)
        one.fleet.save_persistables(tmp_path / "saved")
        seen(one, 5)
        one.fleet.load_model(tmp_path / "saved")
        assert seen(one, 5) == [1.0]


def test_a_small_cache_trains_everything_too() -> None:
    given = strategy("half", cache_rows=3, cache_staleness=100)
    with joined(model=counter(), optimizer=sgd, strategy=given) as one:
        for first in range(0, 40, 4):
            seen(one, 1, 2, *range(100 + first, 104 + first))
        one.model.eval()
        with torch.no_grad():
            assert one.model(torch.tensor([1, 2, 100, 139])).reshape(-1).tolist() == [10.0, 10.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("mode", "why"), [("sync", "rows are exact at every step"), ("geo", "workers keep copies of rows anyway")]
)
def test_other_modes_refuse_it(mode: str, why: str) -> None:
    with (
        pytest.raises(
            UsageError, match=f"cache_rows = 7 is for async and half-async mode; .* {mode} mode, where {why}"
        ),
        joined(model=counter(), optimizer=sgd, strategy=strategy(mode, cache_rows=7)),
    ):
        pass
