"""What servers publish while they train is what they have, to the bit, whatever changes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import fleet
from support.parity.training import first_model, joined, served, strategy
from support.serving.follower import Follower

EVERY_S = 0.02


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.stream.PATIENCE_S", 0.05)


class TwoTables(nn.Module):
    """Two tables, of which one is trained by the model's optimizers, and two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = fleet.nn.Embedding(4, table="ads")
        self.other = fleet.nn.Embedding(3, table="users/of", rule=fleet.rules.Adagrad(lr=0.1), dtype="bfloat16")
        self.norm = nn.BatchNorm1d(7)
        self.out = nn.Linear(7, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found = torch.cat([self.emb(ids).mean(1), self.other(ids + 7).mean(1)], 1)
        scores: torch.Tensor = self.out(self.norm(found)).squeeze(1)
        return scores


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_follower_has_what_the_servers_have(mode: str, tmp_path: Path) -> None:
    with served(2) as (endpoints, services), joined(endpoints, strategy=strategy(mode), model=TwoTables()) as one:
        one.fleet.publish(tmp_path / "stream", every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(tmp_path / "stream")
        for step in range(2, 12, 2):
            one.train(step, step + 2)
            one.fleet.flush()
            follower.until(lambda: follower.equals(services), f"what step {step} has changed")
        one.fleet.shrink(unseen_steps=6)
        follower.until(lambda: follower.equals(services), "the deleted rows to be gone")
        assert follower.num_bases == 1
        one.fleet.save_persistables(tmp_path / "saved")
        one.train(12, 14)
        one.fleet.load_model(tmp_path / "saved")
        one.train(14, 16)
        one.fleet.flush()
        follower.until(lambda: follower.equals(services), "what was loaded")
        assert follower.num_bases > 1


def test_the_same_without_servers(tmp_path: Path) -> None:
    with joined(model=first_model()) as one:
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 3)
        follower = Follower(tmp_path)
        one.train(3, 6)
        weight = one.model.state_dict()["out.weight"].numpy()
        follower.until(lambda: bool((follower.dense["out.weight"] == weight).all()), "the last step")
