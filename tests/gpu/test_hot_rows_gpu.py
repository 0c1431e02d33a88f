"""A cache of hot rows in GPU memory: the same bits as without, in losses and in the table."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.ps.worker.asking.keys import route, route_there

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

STEPS = 30
RULES = {
    "sgd": fleet.rules.SGD(lr=0.1, weight_decay=0.01),
    "adagrad": fleet.rules.Adagrad(lr=0.1, lr_decay=0.1),
    "adam": fleet.rules.Adam(lr=0.01, amsgrad=True),
    "adamw": fleet.rules.AdamW(lr=0.01),
}


class Net(nn.Module):
    def __init__(self, width: int, **table: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = fleet.nn.Embedding(width, "ids", **table)
        self.layers = nn.Sequential(nn.Linear(8 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(self.rows(ids).flatten(1))
        return scores


def batch(step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    return (torch.rand(128, 8, generator=generator) ** 2 * 20_000).long() * 2**33


def trained(width: int = 10, *, on_device: bool = False, accumulate: int = 1, **table: Any) -> tuple[Any, ...]:
    """Losses, and the table afterwards, by key, as bytes."""
    strategy = fleet.DistributedStrategy()
    strategy.dense = "allreduce"
    own = Fleet()
    own.init(strategy=strategy)
    model = Net(width, **table).cuda()
    own.distributed_model(model)
    optimizer = own.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    try:
        own.init_worker()
        data = [batch(step).cuda() if on_device else batch(step) for step in range(STEPS)]
        losses = []
        for number, ids in enumerate(own.prefetch(data, model)):
            loss = (model(ids) - 1.0).square().mean()
            loss.backward()
            losses.append(loss.detach())
            if (number + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        own.server_stats()
        service = model.rows.worker.client.transports[0].service  # type: ignore[attr-defined]
        found = service.state.held.tables[0].export(0, 64)
        order = found["keys"].argsort()
        rows = [found[name][order].tobytes() for name in ("keys", "values", "state", "seen", "step")]
        own.stop_worker()
        return torch.stack(losses).tolist(), *rows
    finally:
        own.shutdown()


@pytest.mark.parametrize("rule", RULES)
def test_every_bit_is_as_without(rule: str) -> None:
    assert trained(rule=RULES[rule]) == trained(rule=RULES[rule], cache="gpu", cache_rows=2_500)


@pytest.mark.parametrize("options", [{"width": 4}, {"width": 256}, {"on_device": True}, {"accumulate": 3}], ids=str)
def test_however_it_is_trained(options: dict[str, Any]) -> None:
    rule = RULES["adagrad"]
    assert trained(rule=rule, **options) == trained(rule=rule, cache="gpu", cache_rows=2_500, **options)


def test_a_large_cache_that_never_evicts() -> None:
    rule = RULES["adam"]
    assert trained(rule=rule) == trained(rule=rule, cache="gpu", cache_rows=100_000)


def test_keys_found_on_the_gpu_are_those_of_the_host() -> None:
    ids = [batch(1).reshape(-1), batch(2)[:7].reshape(-1) - 2**62]
    expected = route(torch.cat(ids), 1, counts=True)
    for sources in (ids, [one.cuda() for one in ids]):
        found, inverse = route_there(sources, torch.device("cuda", 0), counts=True)
        assert torch.equal(found.grouped, expected.grouped)
        assert torch.equal(inverse.cpu(), expected.inverse)
        assert found.offsets.tolist() == expected.offsets.tolist()
        assert found.counts is not None
        assert expected.counts is not None
        assert found.counts.tolist() == expected.counts.tolist()
