"""Copies of a model with tables: they read the same rows, or have all of their own, or are refused in one line."""

from __future__ import annotations

import copy
import io
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import fleet
from fleet.errors import NotReadyError, UsageError
from fleet.nn import Embedding, EmbeddingCollection, Slot, holder, sparse
from support.parity.training import Net, joined, trainer

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


class Two(nn.Module):
    """A table of its own name, a collection of two, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Embedding(2)
        self.slots = EmbeddingCollection([Slot("a", 3), Slot("b", 4, table="shared")])
        self.layer = nn.Linear(9, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found = self.slots({"a": ids, "b": ids})
        rows = torch.cat([self.rows(ids), found["a"], found["b"]], -1)
        scores: torch.Tensor = self.layer(rows).sum((1, 2))
        return scores


def read(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(IDS)
        return found


@pytest.mark.parametrize("is_early", [True, False])
def test_an_average_has_layers_of_its_own_and_reads_the_rows(is_early: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whether it was made before the worker joined the servers or after."""
    sparse._tell_of_copies.cache_clear()
    one = trainer((), model=Two())
    model: Any = one.model

    def average() -> Any:
        return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))

    ema = average() if is_early else None
    one.fleet.init_worker()
    ema = ema or average()
    weights = []
    for _ in range(3):
        one.optimizer.zero_grad()
        model.train()(IDS).sum().backward()
        one.optimizer.step()
        ema.update_parameters(model)
        weights.append(model.layer.weight.detach().clone())
    truth = torch.lerp(torch.lerp(weights[0], weights[1], 0.5), weights[2], 0.5)
    torch.testing.assert_close(ema.module.layer.weight.detach(), truth)
    with caplog.at_level(logging.WARNING):
        found = read(ema)
        assert torch.equal(read(ema), found)
    assert caplog.text.count("reads the same rows as the model: they are neither copied nor averaged") == 1
    holder._warn.cache_clear()
    with caplog.at_level(logging.WARNING):
        plain = ema.state_dict()
    assert "model.state_dict() has no rows of tables" in caplog.text
    ema.load_state_dict(plain)
    held = Two()
    held.load_state_dict({name.removeprefix("module."): value for name, value in gathered(one, ema).items()})
    assert torch.equal(read(held), found)
    with pytest.raises(UsageError, match="this EmbeddingCollection is a copy, and reads the rows of the module"):
        ema.train()(IDS)
    assert not one.worker.is_mid_step
    one.fleet.stop_worker()
    with pytest.raises(NotReadyError, match="this worker has left the servers"):
        read(ema)
    one.fleet.shutdown()


def gathered(one: Any, ema: nn.Module) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = one.fleet.gather_state_dict(ema)
    return {name: value for name, value in found.items() if name != "n_averaged"}


def test_a_copy_with_rows_of_its_own_stays() -> None:
    with joined() as one:
        one.train(2)
        model: Any = one.model
        view, own = copy.deepcopy(model), copy.deepcopy(model)
        own.load_state_dict(one.fleet.gather_state_dict(one.model))
        before = read(own)
        one.train(2, 4)
        model.eval()
        assert torch.equal(read(own), before)
        assert torch.equal(view.eval().emb(IDS), model.emb(IDS)), "of the same rows"
        assert torch.equal(read(pickle.loads(pickle.dumps(own))), before)
        assert torch.equal(read(copy.deepcopy(own)), before)
        assert copy.copy(model.emb).weight is model.emb.weight
    assert torch.equal(read(own), before)


def test_copies_in_a_model_have_tables_of_their_own() -> None:
    tower = nn.Sequential(Embedding(2, initializer=fleet.initializers.Normal(std=1.0)))
    model = nn.ModuleDict({"a": tower, "b": copy.deepcopy(tower), "layer": nn.Linear(2, 1)})
    with joined(model=model) as one:
        assert sorted(one.fleet.server_stats()[0]["tables"]) == ["a.0", "b.0"]
        assert not torch.equal(model["a"](IDS), model["b"](IDS))
        one.optimizer.zero_grad()
        model["layer"](model["b"](IDS)).sum().backward()
        one.optimizer.step()
        assert {name: table["rows"] for name, table in one.fleet.server_stats()[0]["tables"].items()} == {
            "a.0": 0,
            "b.0": 6,
        }
    with joined(model=copy.deepcopy(model)) as again:
        assert sorted(again.fleet.server_stats()[0]["tables"]) == ["a.0", "b.0"]


def test_pickle_leaves_no_rows_behind(tmp_path: Path) -> None:
    """Before there are any it is no loss, and afterwards an error."""
    made = pickle.loads(pickle.dumps(Net()))
    with pytest.raises(UsageError, match="would write no row"):
        made.emb.weight.fill_(1)
    remedy = (
        r"would not be pickled with it; use fleet.save_inference_model\(folder\), or torch.save\(fleet.gather_state"
    )
    with joined(model=made) as one:
        one.train(2)
        for broken in (made, copy.deepcopy(made)):
            with pytest.raises(UsageError, match=remedy):
                torch.save(broken, io.BytesIO())
        torch.save(one.fleet.gather_state_dict(made), tmp_path / "model.pt")
        found = read(made)
        one.fleet.stop_worker()
        with pytest.raises(UsageError, match=remedy):
            pickle.dumps(made)
    held = Net()
    held.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(read(held), found)
