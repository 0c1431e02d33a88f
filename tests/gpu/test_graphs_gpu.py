"""Parts of a click model as CUDA graphs: the same training as without, beside a thread that finds the next keys."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.nn.graphs import Recorded, record_parts

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

STEPS = 25


class Net(nn.Module):
    def __init__(self, dropout: float, **table: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = fleet.nn.Embedding(10, "ids", rule=fleet.rules.Adagrad(lr=0.1), **table)
        self.layers = nn.Sequential(
            nn.Linear(80, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 1)
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(self.rows(ids).flatten(1))
        return scores


def batch(step: int, size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    return (torch.rand(size, 8, generator=generator) ** 2 * 20_000).long() * 2**33


def trained(
    graphs: bool, dense: str = "allreduce", dropout: float = 0.0, **table: Any
) -> tuple[torch.Tensor, Any, int]:
    """Losses, dense parameters, and how many shapes were recorded."""
    strategy = fleet.DistributedStrategy()
    strategy.dense = dense
    strategy.cuda_graphs = graphs
    own = Fleet()
    own.init(strategy=strategy)
    model = Net(dropout, **table).cuda()
    own.distributed_model(model)
    optimizer = own.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    try:
        own.init_worker()
        data = [batch(step, 100 if step % 7 == 6 else 128) for step in range(STEPS)]
        losses = []
        for ids in own.prefetch(data, model):
            loss = (model(ids) - 1.0).square().mean()
            loss.backward()
            losses.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
        forward = model.layers.forward
        num_shapes = len(forward._graphs) if isinstance(forward, Recorded) else 0
        values = {name: value.detach().cpu().clone() for name, value in model.layers.state_dict().items()}
        return torch.stack(losses).cpu(), values, num_shapes
    finally:
        own.stop_worker()


@pytest.mark.parametrize("dense", ["allreduce", "server"])
@pytest.mark.parametrize("table", [{}, {"cache": "gpu", "cache_rows": 8_000}])
def test_training_is_that_without_graphs(dense: str, table: dict[str, Any]) -> None:
    losses, values, num_shapes = trained(False, dense, **table)
    assert num_shapes == 0
    found, own, num_shapes = trained(True, dense, **table)
    assert num_shapes == 2
    assert torch.allclose(found, losses, rtol=1e-5)
    for name, value in values.items():
        assert torch.allclose(own[name].double(), value.double(), atol=1e-4), name


def test_a_cache_gives_the_same_bits_with_graphs() -> None:
    losses, _, _ = trained(True)
    found, _, _ = trained(True, cache="gpu", cache_rows=8_000)
    assert torch.equal(losses, found)


def test_dropout_draws_anew_in_every_replay() -> None:
    losses, _, num_shapes = trained(True, dropout=0.5)
    assert num_shapes == 2
    assert losses.isfinite().all()
    part = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 64)).cuda()
    record_parts(part)
    x = torch.ones(8, 4, device="cuda")
    outputs = []
    for _ in range(5):
        outputs.append(part(x))
        outputs[-1].sum().backward()
    assert isinstance(part.forward, Recorded)
    assert not torch.equal(outputs[3], outputs[4])


def test_half_precision_casts_the_weights_of_each_step() -> None:
    def losses(records: bool) -> list[float]:
        torch.manual_seed(0)
        part = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).cuda()
        if records:
            record_parts(part)
        optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
        found, x = [], torch.randn(64, 8, device="cuda")
        for _ in range(12):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = (part(x).float() - 1.0).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    plain = losses(False)
    assert plain[-1] < 0.5 * plain[0]
    assert losses(True) == pytest.approx(plain, rel=1e-3)


def test_two_losses_go_through_one_call_and_gradients_stay() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 2)).cuda()
    part = copy.deepcopy(plain)
    record_parts(part)
    for _ in range(6):
        x, found = torch.randn(16, 8, device="cuda"), []
        for one in (plain, part):
            scores, parameters = one(x), list(one.parameters())
            first = torch.autograd.grad(scores.sum(), parameters, retain_graph=True)
            second = torch.autograd.grad(scores.square().sum(), parameters)
            found.append([*first, *second])
        for expected, own in zip(*found, strict=True):
            assert torch.allclose(own, expected, rtol=1e-4, atol=1e-5)
    assert len(part.forward._graphs) == 1  # type: ignore[attr-defined]


def test_what_cannot_be_recorded_runs_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    class Asks(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * float(x.sum() > -1e9)  # type: ignore[no-any-return, no-untyped-call]

    part = Asks(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
    record_parts(part)
    for _ in range(5):
        part(torch.ones(2, 4, device="cuda")).sum().backward()
    assert "it runs as ever" in caplog.text
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert bool(torch.rand(100, device="cuda").isfinite().all())
    other = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).cuda()
    record_parts(other)
    for _ in range(5):
        other(torch.ones(2, 4, device="cuda")).sum().backward()
    assert len(other.forward._graphs) == 1  # type: ignore[attr-defined]
