"""fleet.data.load: samples of files in memory, divided by position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fleet
from fleet.errors import UsageError
from support.data.numbered import SCHEMA, Lines, ids, write
from support.serving.readers import ThreadJob


@pytest.fixture
def alone() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def test_all_samples_in_order_without_a_job(tmp_path: Path) -> None:
    examples = fleet.data.load(write(tmp_path, [300, 0, 41]), SCHEMA, threads=3, format=Lines(70))
    assert len(examples) == 341
    assert ids(examples.batch(torch.arange(341))) == list(range(341))
    assert ids(examples.take(torch.tensor([7, 3])).batch(torch.tensor([1, 0, 0]))) == [3, 7, 7]
    with pytest.raises(UsageError, match="positions from 0 to 340"):
        examples.take(torch.tensor([341]))


def test_a_shard_of_them_is_shuffled_over_everything(tmp_path: Path) -> None:
    paths = write(tmp_path, [100, 101])

    def work(index: int) -> list[list[int]]:
        examples = fleet.data.load(paths, SCHEMA, format=Lines(70))
        batches = fleet.data.shard(examples, 10, shuffle=True, uneven="join")
        assert len(batches) == 11 - index  # 201 samples, 20 a step
        return [ids(batch) for batch in batches]

    parts = ThreadJob(2).run(work)
    assert sorted(row for part in parts for batch in part for row in batch) == list(range(201))
    assert max(parts[0][0]) - min(parts[0][0]) > 50


def test_bags_weights_and_text(tmp_path: Path, alone: None) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("click,price,tags,w\n1,2.5,a|b,1\n0,,,0.5\n1,1e3,c,2\n")
    schema = fleet.data.Schema(
        label="click",
        numbers=["price"],
        categories=[fleet.data.Category("tags", separator="|")],
        weight="w",
        delimiter=",",
        header=True,
    )
    examples = fleet.data.load(path, schema)
    (batch,) = fleet.data.shard(examples, 3)
    assert batch.label.tolist() == [1, 0, 1]
    assert batch.dense.tolist() == [[2.5], [0], [1000]]
    assert batch.weight.tolist() == [1, 0.5, 2]
    values, offsets = batch.slots["tags"]
    assert offsets.tolist()[:2] == [0, 2]
    assert values[:2].tolist() == fleet.data.hash_ids("tags", ["a", "b"]).tolist()
    with pytest.raises(UsageError, match="collate"):
        fleet.data.shard(examples, 3, collate=list)
