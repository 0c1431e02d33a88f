"""A model that holds its rows on a GPU: looked up there, by ids from wherever they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import fleet
from fleet.nn import Embedding, EmbeddingCollection, Slot
from support.parity.training import joined

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

ADAGRAD = fleet.rules.Adagrad(lr=0.1)


class Net(nn.Module):
    """A bag, padding, first values of ids without a row, and a collection."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = Embedding(4, pooling="mean", rule=ADAGRAD, padding_idx=3)
        self.first = Embedding(4, rule=ADAGRAD, unseen="initial")
        self.slots = EmbeddingCollection([Slot("ids", 4, pooling="sum", rule=ADAGRAD)])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Sums of [B, 3] ids."""
        rows = self.bags(ids) + self.first(ids).sum(1) + self.slots({"ids": ids})["ids"]
        total: torch.Tensor = rows.sum(1)
        return total


def test_rows_are_looked_up_on_the_gpu(tmp_path: Path) -> None:
    with joined(model=Net(), optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1)) as one:
        one.train(3)
        one.fleet.save_inference_model(tmp_path / "model")
        state = one.fleet.gather_state_dict(one.model)
    ids = torch.randint(0, 60, (16, 3))
    expected = fleet.load_inference_model(tmp_path / "model", Net())(ids)
    model = fleet.load_inference_model(tmp_path / "model", Net().cuda())
    assert model.bags.weight.is_cuda
    for given in (ids, ids.cuda()):
        found = model(given)
        assert found.is_cuda
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=1e-6)
    again = Net().cuda()
    again.load_state_dict(state)
    torch.testing.assert_close(again.eval()(ids).cpu(), expected, rtol=1e-6, atol=1e-6)
    exported = torch.export.export(model, (ids.cuda(),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.testing.assert_close(exported.module()(ids[:5].cuda()).cpu(), expected[:5], rtol=1e-6, atol=1e-6)
