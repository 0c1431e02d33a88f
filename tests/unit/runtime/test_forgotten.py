"""What users forget is said when it matters, not found out from a model that does not learn."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.errors import NotReadyError


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(4, rule=fleet.rules.SGD(lr=0.1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.rows(ids)
        return rows


def test_without_a_distributed_optimizer_rows_can_only_be_read() -> None:
    one = Fleet()
    try:
        one.init()
        model = one.distributed_model(Model())
        one.init_worker()
        with pytest.raises(NotReadyError, match="fleet.distributed_optimizer.*model.eval"):
            model(torch.tensor([1, 2]))
        assert model.eval()(torch.tensor([1, 2])).shape == (2, 4)
        with torch.no_grad():
            assert model.train()(torch.tensor([1, 2])).shape == (2, 4)
    finally:
        one.shutdown()
