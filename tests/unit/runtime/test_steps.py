"""`fleet.steps` and `fleet.steps_done`: one count, also with several optimizers and over checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError, UsageTypeError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(2, table="rows", rule=fleet.rules.SGD(lr=0.1))
        self.layer = nn.Linear(2, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(self.rows(ids))
        return scores


def train(folder: Path, end: int, leave_at: int) -> list[tuple[int, int, int]]:
    """The steps that a run makes; of each its number, and how many are done by the checkpoint and by Fleet."""
    fleet.init()
    try:
        model = fleet.distributed_model(Net())
        optimizers = [
            fleet.distributed_optimizer(torch.optim.SGD(model.layer.parameters(), lr=0.1)),
            fleet.distributed_optimizer(torch.optim.SGD(model.rows.parameters(), lr=0.1)),
        ]
        fleet.init_worker()
        found = []
        with fleet.Checkpoint(folder, model=model, optimizer=optimizers, resume=True) as saved:
            for step in fleet.steps(end):
                found.append((step, saved.step, fleet.steps_done()))
                model(torch.tensor([step])).sum().backward()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
                saved.save(step + 1)
                if step + 1 == leave_at:
                    break
        fleet.stop_worker()
        return found
    finally:
        fleet.shutdown()


def test_a_resumed_run_goes_on_at_its_step_by_every_count(tmp_path: Path) -> None:
    assert train(tmp_path, 5, leave_at=3) == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]
    assert train(tmp_path, 5, leave_at=5) == [(3, 3, 3), (4, 4, 4)]
    assert train(tmp_path, 5, leave_at=5) == []


def test_a_collective_job_counts_too(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        fleet.init(is_collective=True)
        try:
            model = fleet.distributed_model(nn.Linear(2, 1))
            optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
            with fleet.Checkpoint(tmp_path, model=model, optimizer=optimizer, resume=True) as saved:
                for step in fleet.steps(saved.step + 2):
                    model(torch.ones(1, 2)).sum().backward()
                    optimizer.step()
                    found.append((step, fleet.steps_done()))
                saved.save(fleet.steps_done())
        finally:
            fleet.shutdown()
    assert found == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_what_is_no_number_of_steps_is_refused() -> None:
    fleet.init()
    try:
        with pytest.raises(UsageTypeError, match=r"end must be an int, got '5'"):
            fleet.steps("5")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="end must be at least 1, got 0"):
            fleet.steps(0)
    finally:
        fleet.shutdown()
