"""fleet.data.Negatives: the right shares, never the row's own, the same for the same place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fleet
from fleet.data import Batch, Negatives, Schema
from fleet.data.negatives import AliasTable
from fleet.errors import UsageError, UsageTypeError
from support.serving.readers import ThreadJob


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1e6) | st.just(1.0), min_size=1, max_size=50))
def test_the_table_has_the_shares_of_the_weights(weights: list[float]) -> None:
    found = np.array(weights)
    if found.sum() > 1e-300:
        np.testing.assert_allclose(AliasTable(found).shares(), found / found.sum(), rtol=1e-9, atol=1e-12)


def test_a_large_table_has_the_shares_of_the_weights() -> None:
    weights = (1.0 / np.arange(1, 100_001) ** 1.1).astype(np.float64)
    mixed: Any = np.random.default_rng(1).permutation(weights)
    for found in (weights, weights[::-1].copy(), mixed):
        np.testing.assert_allclose(AliasTable(found).shares(), found / found.sum(), atol=1e-10)


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_popular_items_are_drawn_more_often(power: float) -> None:
    counts = np.array([1, 16, 81, 256, 10_000])
    items = np.array([5, -3, 1 << 62, 0, 9])
    wanted = counts**power / (counts**power).sum()
    for negatives in (
        Negatives(items, 50, counts=counts, power=power, seed=3),
        Negatives(np.repeat(items, counts), 50, power=power, seed=3),
    ):
        drawn = negatives.draw(20_000).numpy()
        found = [(drawn == item).mean() for item in items]
        np.testing.assert_allclose(found, wanted, atol=0.003)
        by_column = np.array([[(drawn[:, column] == item).mean() for item in items] for column in range(50)])
        np.testing.assert_allclose(by_column, np.tile(wanted, (50, 1)), atol=0.02)


def test_what_is_drawn_depends_on_the_place_alone() -> None:
    negatives = Negatives(range(1000), 7, seed=5)
    whole = negatives.draw(100, epoch=2, position=40)
    parts = [negatives.draw(size, epoch=2, position=40 + first) for first, size in ((0, 1), (1, 60), (61, 39))]
    assert torch.equal(torch.cat(parts), whole)
    for other in (
        negatives.draw(100, epoch=3, position=40),
        negatives.draw(100, epoch=2, position=41),
        negatives.draw(100, epoch=2, position=40, worker=1),
        Negatives(range(1000), 7, seed=6).draw(100, epoch=2, position=40),
    ):
        assert (other == whole).float().mean() < 0.02
    assert whole.dtype == torch.int64


def test_draws_never_change() -> None:
    assert Negatives(range(100), 4, counts=range(1, 101), seed=1).draw(2, epoch=1, position=7).tolist() == GOLDEN


GOLDEN = [[83, 66, 19, 90], [86, 90, 40, 44]]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), num_items=st.integers(2, 30), rows=st.integers(0, 20), ragged=st.booleans())
def test_a_row_never_gets_its_own(data: st.DataObject, num_items: int, rows: int, ragged: bool) -> None:
    own = [data.draw(st.lists(st.integers(0, num_items), max_size=num_items - 1)) for _ in range(rows)]
    negatives = Negatives(np.arange(num_items) * 3, 6, counts=2.0 ** np.arange(num_items), power=1.0)
    without: Any
    if ragged:
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in own])]).astype(np.int64)
        without = torch.tensor([3 * item for one in own for item in one], dtype=torch.int64), torch.from_numpy(offsets)
    else:
        padded = [[3 * item for item in one] + [-1] * (num_items - len(one)) for one in own]
        without = torch.tensor(padded, dtype=torch.int64).reshape(rows, num_items)
    drawn = negatives.draw(rows, without=without).tolist()
    assert [len(one) for one in drawn] == [6] * rows
    for row, one in zip(drawn, own, strict=True):
        assert not {3 * item for item in one} & set(row)
        assert set(row) <= set((np.arange(num_items) * 3).tolist())


def batch_of(rows: int) -> Batch:
    ids = torch.arange(rows * 2).reshape(rows, 2) % 10
    history = (torch.arange(rows * 3) % 10, torch.arange(rows + 1) * 3)
    return Batch(torch.zeros(rows), torch.zeros(rows, 0), ids, {"history": history}, None)


def test_batches_get_a_slot() -> None:
    negatives = Negatives(range(12), 8)
    batch = batch_of(6)
    made = negatives.add(batch, without=[1, "history"])
    assert set(made.slots) == {"history", "negatives"}
    assert set(batch.slots) == {"history"}
    drawn = made.slots["negatives"]
    assert isinstance(drawn, torch.Tensor)
    assert drawn.shape == (6, 8)
    values, offsets = batch.slots["history"]
    for row in range(6):
        own = {int(batch.ids[row, 1]), *values[offsets[row] : offsets[row + 1]].tolist()}
        assert not own & set(drawn[row].tolist())


def test_over_the_batches_of_a_shard() -> None:
    """Each worker, epoch and batch draws its own; a run that goes on draws what it would have drawn."""
    negatives = Negatives(range(1000), 3)

    def drawn(batches: Any) -> list[Any]:
        return [one.slots["negatives"].tolist() for one in negatives.over(batches)]  # type: ignore[union-attr]

    def work(worker: int) -> tuple[list[Any], list[Any], list[Any]]:
        batches = fleet.data.shard(lambda: [batch_of(4), batch_of(4)])
        again = fleet.data.shard(lambda: [batch_of(4), batch_of(4)])
        first = drawn(batches)
        for _ in again:
            again_state = again.state_dict()
            break
        rest = fleet.data.shard(lambda: [batch_of(4), batch_of(4)])
        rest.load_state_dict(again_state)
        return first, drawn(batches), drawn(rest)

    (first, second, rest), (other, _, _) = ThreadJob(2).run(work)
    assert rest == first[1:]
    different = [str(one) for one in (*first, *second, *other)]
    assert len(set(different)) == 6
    assert drawn([batch_of(4), batch_of(4)]) == first


@pytest.mark.parametrize(
    ("call", "kind", "what"),
    [
        (lambda: Negatives([], 1), UsageError, "there are no items to draw from"),
        (lambda: Negatives([1], 0), UsageError, "num must be at least 1, got 0"),
        (lambda: Negatives([1], 1, power=-1), UsageError, "power must be at least 0, got -1"),
        (lambda: Negatives(torch.tensor([0.5]), 1), UsageTypeError, r"items must be ids, int64 \[n\], got float32"),
        (lambda: Negatives([1, 2], 1, counts=[1.0]), UsageError, "one for each of the 2 items"),
        (lambda: Negatives([1, 2], 1, counts=[0, 0]), UsageError, "not all 0"),
        (lambda: Negatives([1, 1], 1, counts=[1, 2]), UsageError, "once each"),
        (
            lambda: Negatives([1], 1).draw(1, without=torch.tensor([[1]])),
            UsageError,
            "row 0 .* nothing is left to draw",
        ),
        (lambda: Negatives([1], 1).draw(2, without=torch.tensor([[1]])), UsageError, r"without must be \[2, k\]"),
        (lambda: Negatives([1], 1).add(batch_of(1), without="history"), UsageTypeError, "without must be a list"),
        (lambda: Negatives([1], 1).add(batch_of(1), without=["gone"]), UsageError, "no slot 'gone'; it has history"),
        (lambda: Negatives([1], 1).add(batch_of(1), without=[2]), UsageError, "2 columns of ids, and no column 2"),
    ],
)
def test_mistakes(call: Any, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        call()


def test_ids_of_a_schema_are_those_of_hash_ids() -> None:
    assert Schema(categories=["item"]).single[0].hashed_as == "item"
    items = fleet.data.hash_ids("item", ["a", "b"])
    assert set(Negatives(items, 5).draw(10).reshape(-1).tolist()) == set(items.tolist())
