"""Saves that have only what changed: with their base they hold, bit for bit, what a whole save holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import fleet
from fleet.checkpoint import Manifest, read_chain, read_contents
from fleet.errors import CheckpointError
from fleet.ps.job.entries import CountFilterEntry
from support.increments import tables_in
from support.parity.training import Trainer, joined, served, strategy

pytestmark = pytest.mark.timeout(120)
NUM_IDS = 400


class Two(nn.Module):
    """Two tables with different rules, one of whose keys wait for a row; and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.ads = fleet.nn.Embedding(3, table="ads", rule=fleet.rules.Adagrad(lr=0.1))
        self.users = fleet.nn.Embedding(2, table="users", rule=fleet.rules.Adam(lr=0.1), entry=CountFilterEntry(2))
        self.out = nn.Linear(5, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(torch.cat([self.ads(ids), self.users(ids)], 1))
        return found


def train(one: Trainer, *ids: int) -> None:
    one.optimizer.zero_grad()
    one.model(torch.tensor(ids)).square().sum().backward()
    one.optimizer.step()


def rows_in(folder: Path) -> int:
    """How many rows of tables are in the files of a save itself."""
    return sum(getattr(piece, "rows", 0) for piece in read_contents(folder, Manifest).pieces)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_base_and_its_increments_are_the_whole_save(mode: str, tmp_path: Path) -> None:
    chain, whole = tmp_path / "chain", tmp_path / "whole"
    with served(2) as (endpoints, _), joined(endpoints, strategy=strategy(mode), model=Two()) as one:
        train(one, *range(NUM_IDS))
        assert one.fleet.save_persistables(chain, incremental=True) == chain
        for round_, ids in enumerate([(1, 2, 3, 500, 501), (2, 3, 500), ()], 1):
            for _ in range(round_):
                train(one, *ids, 7)
            if round_ == 2:
                one.fleet.shrink(unseen_steps=2)
            made = one.fleet.save_persistables(chain, incremental=True)
            assert made == chain / f"increment-{round_:08}"
            assert rows_in(made) <= 2 * len(ids) + 2
            one.fleet.save_persistables(whole)
            for num_servers in (1, 2, 3):
                assert tables_in(chain, num_servers) == tables_in(whole)
            assert tables_in(made) == tables_in(whole)
        assert [link.folder.name for link in read_chain(chain)][1:] == [f"increment-{n:08}" for n in (1, 2, 3)]
        values = one.fleet.gather_state_dict(one.model)
    with served(3) as (endpoints, _), joined(endpoints, strategy=strategy(mode), model=Two()) as one:
        train(one, 1, 2)
        one.fleet.load_model(chain)
        again = one.fleet.gather_state_dict(one.model)
        assert all(torch.equal(values[name], again[name]) for name in values)
    model = fleet.load_inference_model(chain, Two())
    assert torch.equal(model.ads(torch.tensor([7])), values["ads.weight"][values["ads.keys"] == 7])


def test_where_nobody_knows_what_changed_a_save_is_whole_and_takes_the_place_of_all(tmp_path: Path) -> None:
    chain = tmp_path / "chain"
    with joined(model=Two()) as one:
        train(one, *range(50))
        one.fleet.save_persistables(chain)
        assert one.fleet.save_persistables(chain, incremental=True) == chain, "nobody has noted anything before"
        train(one, 1, 2)
        assert one.fleet.save_persistables(chain, incremental=True) != chain
        one.fleet.load_model(chain)
        assert one.fleet.save_persistables(chain, incremental=True) == chain, "a load has replaced everything"
        assert not list(chain.glob("increment-*"))
        train(one, 1)
        assert one.fleet.save_persistables(chain, incremental=True) != chain
        one.fleet.save_persistables(chain)
        assert [link.folder for link in read_chain(chain)] == [chain]
        assert not list(chain.glob("increment-*"))
    with joined(model=Two()) as one:
        train(one, 1)
        assert one.fleet.save_persistables(chain, incremental=True) == chain, "this is another server"


@pytest.mark.parametrize("what", ["gone", "gap", "another", "damaged", "another job"])
def test_a_chain_that_is_not_whole_is_refused(what: str, tmp_path: Path) -> None:
    chain = tmp_path / "chain"
    with joined(model=Two()) as one:
        for ids in ((1, 2, 3), (1, 2), (5,)):
            train(one, *ids)
            one.fleet.save_persistables(chain, incremental=True)
        other = tmp_path / "other"
        one.fleet.save_persistables(other)
        newest = chain / "increment-00000002"
        if what == "gone":
            shutil.move(newest, tmp_path / "increment-00000002")
            chain = tmp_path / "increment-00000002"
            says = "which|cannot be read: no checkpoint in .*; bring it back"
        elif what == "gap":
            shutil.rmtree(chain / "increment-00000001")
            says = "cannot be read: no checkpoint in .*increment-00000001.*; bring it back"
        elif what == "another":
            for path in chain.glob("*.*"):
                path.unlink()
            shutil.copytree(other, chain, dirs_exist_ok=True)
            says = "there is another save now; bring the one it builds on back"
        elif what == "damaged":
            path = next(newest.glob("table-ads.*changed*"))
            path.write_bytes(path.read_bytes()[:-1] + b"\0")
            says = "is damaged"
        else:
            text = json.loads((newest / "manifest.json").read_text())
            text["job"]["mode"] = "async"
            del text["checksum"]
            from fleet.checkpoint.folders.seal import seal

            (newest / "manifest.json").write_text(seal(text, {"indent": 1}))
            says = "is of another job; bring the one it builds on back"
        before = one.fleet.gather_state_dict(one.model)
        with pytest.raises(CheckpointError, match=says):
            one.fleet.load_model(chain)
        after = one.fleet.gather_state_dict(one.model)
        assert all(torch.equal(before[name], after[name]) for name in before)
