"""A step is applied whole or not at all: whatever part of it is bad, no row and no parameter has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fleet.errors import FleetError, NotReadyError, UsageError
from fleet.ps.held.holdings import Holdings
from fleet.ps.held.requests import PushedUpdate, TableUpdate
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.named_spec import EntrySpec
from fleet.ps.job.spec import JobSpec, TableSpec
from support.plane.pushes import pushed

WIDTH, NUM_DENSE = 2, 3
KEYS = np.array([1, 2, -7], np.int64)
ONES = np.ones((3, WIDTH), np.float32)
DENSE = np.ones(NUM_DENSE, np.float32)
HUGE = np.float32(np.finfo(np.float32).max)


def apply(holdings: Holdings, updates: Sequence[PushedUpdate]) -> int:
    """As a server does it."""
    holdings.check(updates)
    return holdings.apply_mean(updates, time=1)


def job(nonfinite: str = "error") -> JobSpec:
    def table(name: str, entry: EntrySpec) -> TableSpec:
        return TableSpec(name, WIDTH, rules.SGD(lr=1.0), initializers.Constant(0.0), entry)

    tables = (table("ads", entries.AlwaysEntry()), table("users", entries.ShowClickEntry("show", "click")))
    blocks = tuple(DenseBlock(name, 0, NUM_DENSE, 0, group) for group, name in enumerate("wv"))
    dense = DenseSpec((rules.SGD(lr=1.0),) * 2, (("w", (NUM_DENSE,)), ("v", (NUM_DENSE,))), blocks)
    return JobSpec(2, 1, "sync", nonfinite, tables, dense)


JOB = job()


def make(nonfinite: str = "error", *, is_started: bool = True) -> Holdings:
    holdings = Holdings(job(nonfinite), 0)
    if is_started:
        holdings.start([0 * DENSE, 0 * DENSE])
    return holdings


def of_table(index: int, grads: NDArray[np.float32] = ONES, lr: float = 1.0, **more: Any) -> TableUpdate:
    return TableUpdate(index, lr, KEYS, grads, **more)


def update(
    worker: int,
    *parts: TableUpdate,
    dense: Mapping[int, NDArray[np.float32]] | None = None,
    lrs: Mapping[int, float] | None = None,
) -> PushedUpdate:
    dense = {0: DENSE, 1: DENSE} if dense is None else dense
    return pushed(JOB, worker, 4, parts, dense, lrs)


def both(dense: Mapping[int, NDArray[np.float32]]) -> list[PushedUpdate]:
    return [update(worker, of_table(0), of_table(1), dense=dense) for worker in range(2)]


GOOD = update(0, of_table(0), of_table(1))
NAN = np.array([1.0, np.nan, 1.0], np.float32)


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        (
            [GOOD, update(1, of_table(1, lr=0.5))],
            "table 'users': the learning rate of worker 0 is 1.0, that of",
        ),
        (
            [GOOD, update(1, lrs={0: 1.0, 1: 0.25})],
            "dense group 1: the learning rate of worker 0 is 1.0, that of",
        ),
        ([update(0, of_table(1, HUGE * ONES))] * 2, "table 'users': the gradients of step 4 hold a NaN or an Inf"),
        ([GOOD, update(1, of_table(1, np.nan * ONES))], "table 'users': the gradients of step 4 hold a NaN or an Inf"),
        (
            [update(0, of_table(0), of_table(1, shows=DENSE, clicks=NAN))],
            "table 'users': the shows or clicks of step 4",
        ),
        (both({0: DENSE, 1: HUGE * DENSE}), "dense parameters, group 1: the gradients of step 4 hold a NaN or an Inf"),
        ([update(0, of_table(0), dense={0: DENSE, 1: NAN})], "dense parameters, group 1: the gradients of step 4 hold"),
    ],
)
def test_nothing_is_applied_if_a_part_cannot_be(updates: list[PushedUpdate], message: str) -> None:
    holdings = make()
    with pytest.raises(UsageError, match=f"{message}.*; nothing was applied"):
        apply(holdings, updates)
    check_untouched(holdings)
    apply(holdings, [GOOD, update(1, of_table(0), of_table(1))])  # and what is right still is
    np.testing.assert_array_equal(holdings.pull(0, KEYS), -ONES)
    np.testing.assert_array_equal(holdings.read_dense(), [-DENSE, -DENSE])


def check_untouched(holdings: Holdings) -> None:
    assert [len(table) + table.num_waiting for table in holdings.tables] == [0, 0]
    np.testing.assert_array_equal(holdings.read_dense(), [0 * DENSE, 0 * DENSE])


def test_no_row_changes_before_dense_parameters_have_values() -> None:
    holdings = make(is_started=False)
    with pytest.raises(NotReadyError, match="dense parameters have no values yet"):
        apply(holdings, [GOOD])
    check_untouched(holdings)


@pytest.mark.parametrize("nonfinite", ["error", "skip"])
def test_clicks_are_never_skipped(nonfinite: str) -> None:
    holdings = make(nonfinite)
    with pytest.raises(FleetError, match="'users': the shows or clicks of step 4 hold a NaN or an Inf"):
        apply(holdings, [update(0, of_table(0), of_table(1, shows=NAN, clicks=DENSE))])
    check_untouched(holdings)


def test_what_may_be_skipped_is() -> None:
    holdings = make("skip")
    bad = np.array([[1, 1], [np.inf, 1], [1, 1]], np.float32)
    assert apply(holdings, [GOOD, update(1, of_table(0, bad), dense={0: NAN, 1: DENSE})]) == 2
    np.testing.assert_array_equal(holdings.pull(0, KEYS), [[-1, -1], [0, 0], [-1, -1]])
    np.testing.assert_array_equal(holdings.read_dense(), [0 * DENSE, -DENSE])


def test_large_gradients_that_do_not_overflow_are_applied() -> None:
    holdings = make()
    apply(holdings, [update(0, of_table(0, HUGE * ONES), dense={}), update(1, of_table(0, -HUGE * ONES), dense={})])
    np.testing.assert_array_equal(holdings.pull(0, KEYS), 0 * ONES)


def test_optimizers_in_another_order_are_named() -> None:
    holdings = make()
    rows, first, second = update(0, of_table(0), dense={}), update(1, dense={0: DENSE}), update(1, dense={1: DENSE})
    for pair in ([rows, first], [update(0, dense={0: DENSE}), second], [first, update(0)]):
        with pytest.raises(UsageError, match=r"worker \d has stepped another optimizer than worker \d; nothing was"):
            apply(holdings, pair)
    apply(holdings, [update(0, dense={}), first])  # one that skips the step


def test_rates_that_differ_by_rounding_are_one() -> None:
    holdings = make()
    apply(holdings, [update(worker, of_table(0, lr=0.1 * (1 + worker * 1e-9)), dense={}) for worker in range(2)])
    np.testing.assert_allclose(holdings.pull(0, KEYS), -0.1 * ONES)


@pytest.mark.parametrize(("nonfinite", "factor"), [("error", 1.0), ("error", 0.25), ("skip", 0.5)])
def test_dense_groups_that_are_elsewhere_are_trained_alike(nonfinite: str, factor: float) -> None:
    step = [GOOD, update(1, of_table(0), dense={0: NAN if nonfinite == "skip" else 3 * DENSE, 1: DENSE})]
    found = []
    for device in ("cpu", "cpu:0"):
        holdings = Holdings(job(nonfinite), 0, device)
        holdings.start([0 * DENSE, 0 * DENSE])
        holdings.check(step)
        skipped = holdings.apply_mean(step, 1, factor=factor)
        found.append([skipped, *holdings.read_dense(), holdings.pull(0, KEYS)])
        assert (holdings.dense is None) == (device == "cpu:0")
    assert found[0][0] == found[1][0] == (nonfinite == "skip")
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_array_equal(found[0][2], found[1][2])
    np.testing.assert_array_equal(found[0][2], -factor * DENSE)
    np.testing.assert_array_equal(found[0][3], -factor * ONES)
    np.testing.assert_array_equal(found[0][3], found[1][3])
