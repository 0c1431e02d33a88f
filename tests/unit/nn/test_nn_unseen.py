"""Ids without a row: first values where rows are trained, zeros or first values where they are only read."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet import checkpoint
from fleet.checkpoint.folders.seal import seal
from fleet.errors import UsageError
from fleet.nn import Embedding, EmbeddingCollection, Slot
from fleet.ps.held.unseen import UnseenRows
from support.parity.training import Trainer, joined, served, strategy

MODES = ["sync", "async", "half", "geo"]
FIRST = fleet.initializers.Constant(3.0)
SGD = fleet.rules.SGD(lr=1.0)


def table(**given: Any) -> Embedding:
    return Embedding(2, "ads", **{"rule": SGD, "initializer": FIRST, **given})


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def learn(one: Trainer, *ids: int) -> None:
    """One step of SGD that takes 1 from the rows of these ids."""
    one.model(torch.tensor(ids)).sum().backward()
    one.optimizer.step()


def read(one: Trainer, *ids: int) -> list[float]:
    """The first number of each row, in evaluation."""
    was = one.model.training
    one.model.eval()
    rows: list[float] = one.model(torch.tensor(ids))[:, 0].tolist()
    one.model.train(was)
    return rows


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("unseen", "expected"), [("zeros", 0.0), ("initial", 3.0)])
def test_evaluation_reads_what_the_table_says(mode: str, unseen: str, expected: float) -> None:
    with served(2) as (endpoints, services):
        with joined(endpoints, model=table(unseen=unseen), optimizer=sgd, strategy=strategy(mode, k_steps=1)) as one:
            assert read(one, 1, 2, 3) == [expected] * 3
            assert one.model(torch.tensor([1]))[0, 0] == 3.0
            learn(one, 1, 4)
            one.fleet.flush()
            assert read(one, 1, 2, 4, 5) == [2.0, expected, 2.0, expected]
            learn(one, 2)  # an evaluation before has left nothing behind
            one.fleet.flush()
            assert read(one, 1, 2, 3) == [2.0, 2.0, expected]
        holdings = [service.state.holdings for service in services]
        assert sum(len(one.tables[0]) for one in holdings if one is not None) == 3


def test_reading_is_eval_or_no_grad_or_a_frozen_module() -> None:
    ids = torch.tensor([1])
    with joined(model=table(), optimizer=sgd) as one:
        assert one.model(ids)[0, 0] == 3.0
        with torch.no_grad():
            assert one.model(ids)[0, 0] == 0.0
        assert read(one, 1) == [0.0]
        one.model.weight.requires_grad_(False)
        assert one.model(ids)[0, 0] == 0.0


def test_geo_keeps_no_copy_of_what_is_only_read() -> None:
    """Another worker trains an id that this one has evaluated: the next evaluation sees it."""
    with served() as (endpoints, _), ExitStack() as stack:
        geo = strategy("geo", k_steps=1)
        one, other = (
            stack.enter_context(joined(endpoints, index, 2, model=table(), optimizer=sgd, strategy=geo))
            for index in range(2)
        )
        assert read(one, 1) == [0.0]
        learn(other, 1)
        other.fleet.flush()
        assert read(one, 1) == [2.0]
        learn(one, 1)
        assert read(one, 1) == [1.0]


@pytest.mark.parametrize("mode", MODES)
def test_rows_prefetched_for_the_other_purpose_are_asked_for_again(mode: str) -> None:
    batches = [torch.tensor([number, number + 1]) for number in range(0, 12, 2)]
    with joined(model=table(), optimizer=sgd, strategy=strategy(mode, k_steps=1)) as one:
        seen = []
        for number, ids in enumerate(one.fleet.prefetch(batches, one.model)):
            one.model.train(number % 3 != 1)  # after it was prefetched for what the model did before
            rows = one.model(ids)
            seen.append(rows[0, 0].item())
            if one.model.training:
                rows.sum().backward()
                one.optimizer.step()
        assert seen == [3.0, 0.0, 3.0, 3.0, 0.0, 3.0]
        one.fleet.flush()
        assert read(one, *range(12)) == [2.0, 2.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 2.0, 2.0]


@pytest.mark.parametrize("mode", MODES)
def test_an_evaluation_can_be_prefetched(mode: str) -> None:
    with joined(model=table(), optimizer=sgd, strategy=strategy(mode, k_steps=1)) as one:
        learn(one, 1)
        one.fleet.flush()
        one.model.eval()
        batches = [torch.tensor([1, 2]), torch.tensor([2, 1])]
        found = [one.model(ids)[:, 0].tolist() for ids in one.fleet.prefetch(batches, one.model)]
        assert found == [[2.0, 0.0], [0.0, 2.0]]


def test_a_frozen_table_rides_on_the_push_of_another() -> None:
    """One request with rows to train of one table and rows to read of the other."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trained = table()
            self.frozen = Embedding(2, "frozen", rule=SGD, initializer=FIRST)
            self.frozen.weight.requires_grad_(False)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.trained(ids), self.frozen(ids)], 1)

    batches = [torch.tensor([number]) for number in range(4)]
    with joined(model=Both(), optimizer=sgd) as one:
        pulls = one.stats()[0]["pulls"]
        for ids in one.fleet.prefetch(batches, one.model, lambda ids: {"trained": ids, "frozen": ids}):
            rows = one.model(ids)
            assert rows[0].tolist() == [3.0, 3.0, 0.0, 0.0]
            rows.sum().backward()
            one.optimizer.step()
        # Of the first batch a pull of each module; then one on each push.
        assert one.stats()[0]["pulls"] - pulls == 2 + len(batches) - 1


def test_slots_have_it_too() -> None:
    slots = [Slot("a", 2, rule=SGD, initializer=FIRST), Slot("b", 2, rule=SGD, initializer=FIRST, unseen="initial")]
    with joined(model=EmbeddingCollection(slots), optimizer=sgd) as one:
        one.model.eval()
        rows = one.model({"a": torch.tensor([1]), "b": torch.tensor([1])})
        assert (rows["a"][0, 0], rows["b"][0, 0]) == (0.0, 3.0)


def test_an_entry_policy_reads_zeros_anyway() -> None:
    with pytest.raises(UsageError, match="table 'ads': unseen must be 'zeros' with entry count_filter, got 'initial'"):
        table(entry=fleet.CountFilterEntry(2), unseen="initial")
    with pytest.raises(UsageError, match='unseen must be "zeros" or "initial", got \'nothing\''):
        table(unseen="nothing")
    with joined(model=table(entry=fleet.CountFilterEntry(2)), optimizer=sgd) as one:
        assert one.model(torch.tensor([1]))[0, 0] == 0.0
        learn(one, 1, 1)  # counted twice: admitted with its first value
        assert read(one, 1, 2) == [3.0, 0.0]


@pytest.mark.parametrize("unseen", ["zeros", "initial"])
def test_a_copy_for_serving_says_it(tmp_path: Path, unseen: str) -> None:
    """What serving computes of it is what an evaluation reads."""
    given = {"initializer": fleet.initializers.Normal(std=2.0), "seed": 2**63 - 7, "dtype": "bfloat16"}
    model = table(unseen=unseen, max_norm=1.5, norm_type=float("inf"), **given)
    with joined(model=model, optimizer=sgd) as one:
        learn(one, 1)
        one.fleet.save_inference_model(tmp_path / "copy")
        one.model.eval()
        expected = one.model(torch.arange(5, 50)).numpy()
    (part,) = json.loads((tmp_path / "copy" / "inference.json").read_text())["tables"]
    assert part["unseen"] == {
        "reads": unseen,
        "initializer": "normal",
        "args": {"mean": 0.0, "std": 2.0},
        "seed": 2**63 - 7,
        "dtype": "bfloat16",
        "max_norm": 1.5,
        "norm_type": None,
    }
    (kept,) = checkpoint.InferenceIndex.from_text((tmp_path / "copy" / "inference.json").read_text(), "here").tables
    rows = UnseenRows(kept.table, kept.width, kept.unseen)(np.arange(5, 50))
    np.testing.assert_array_equal(rows, expected)
    assert np.abs(rows).max() == (1.5 if unseen == "initial" else 0.0)


def test_a_copy_of_an_earlier_version_reads_as_zeros(tmp_path: Path) -> None:
    with joined(model=table(unseen="initial"), optimizer=sgd) as one:
        one.fleet.save_inference_model(tmp_path / "copy")
    account = json.loads((tmp_path / "copy" / "inference.json").read_text())
    del account["tables"][0]["unseen"]
    del account["checksum"]
    (kept,) = checkpoint.InferenceIndex.from_text(seal(account, {}), "here").tables
    assert kept.unseen.reads == "zeros"


def test_a_checkpoint_of_an_earlier_version_loads(tmp_path: Path) -> None:
    with joined(model=table(), optimizer=sgd) as one:
        learn(one, 1)
        one.fleet.save_persistables(folder := tmp_path / "saved")
        manifest = json.loads((folder / "manifest.json").read_text())
        for name in ("unseen", "max_norm", "norm_type"):
            del manifest["job"]["tables"][0][name]
        del manifest["checksum"]
        (folder / "manifest.json").write_text(seal(manifest, {}))
        learn(one, 1)
        one.fleet.load_model(folder)
        assert read(one, 1, 2) == [2.0, 0.0]
