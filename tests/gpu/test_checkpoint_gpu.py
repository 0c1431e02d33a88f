"""fleet.Checkpoint on a GPU: copies through pinned memory, the device's random numbers, counters where fused steps want
them; and from a GPU to the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.runtime.training.checkpoint import Checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    yield
    fleet.shutdown()


def begin(folder: Path, fused: bool) -> tuple[Any, Any, Checkpoint]:
    fleet.init(is_collective=True)
    model = fleet.distributed_model(nn.Sequential(nn.Linear(64, 64), nn.Dropout(), nn.Linear(64, 8)))
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.01, fused=fused))
    return model, optimizer, Checkpoint(folder, model=model, optimizer=optimizer)


def train(model: Any, optimizer: Any, num_steps: int) -> list[torch.Tensor]:
    for _ in range(num_steps):
        model(torch.rand(16, 64, device=fleet.device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [one.detach().cpu() for one in model.parameters()]


@pytest.mark.parametrize("fused", [False, True])
def test_a_run_on_a_gpu_goes_on(tmp_path: Path, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, optimizer, checkpoint = begin(tmp_path, fused)
    train(model, optimizer, 3)
    with checkpoint:
        checkpoint.save(3)
        end = train(model, optimizer, 3)
    fleet.shutdown()
    torch.manual_seed(1)
    model, optimizer, checkpoint = begin(tmp_path, fused)
    assert checkpoint.load() == 3
    steps = [state["step"].device.type for state in optimizer.state.values()]
    assert set(steps) == {"cuda" if fused else "cpu"}
    assert all(map(torch.equal, train(model, optimizer, 3), end))
    fleet.shutdown()
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    model, optimizer, checkpoint = begin(tmp_path, fused=False)
    assert checkpoint.load() == 3
    train(model, optimizer, 1)
