"""The core's table from Python: its arguments, its arrays, and a dict that does the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

INT64 = np.iinfo(np.int64)
MARKS = {"keys", "seen", "step"}


def ints(*values: int) -> Keys:
    return np.array(values, dtype=np.int64)


def floats(*shape: int, value: float = 1.0) -> Floats:
    return np.full(shape, value, dtype=np.float32)


def make_table(width: int = 2, **more: Any) -> _native.Table:
    arguments: dict[str, Any] = {
        "name": "ads",
        "width": width,
        "rule": "sgd",
        "rule_args": {},
        "initializer": "uniform",
        "initializer_args": {"low": -1, "high": 1},
        "entry": "always",
        "entry_args": {},
        **more,
    }
    return _native.Table(**arguments)


def clicks_table() -> _native.Table:
    args = {"threshold": 2.0, "nonclk_coeff": 0.5, "click_coeff": 1.0}
    return make_table(rule="adagrad", entry="show_click", entry_args=args)


def first_values(keys: Keys, width: int = 2) -> Floats:
    return _native.initialize("uniform", {"low": -1, "high": 1}, 0, "ads", keys, width)


def check_one_line(
    call: Callable[[], object], error: type[Exception] | tuple[type[Exception], ...], message: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"width": 0}, ValueError, "table 'ads': width must be in 1..16777216, got 0"),
        ({"width": 2**62}, ValueError, "table 'ads': width must be in 1..16777216, got 4611686018427387904"),
        ({"width": 1.5}, TypeError, "table 'ads': width must be an integer, got float"),
        ({"seed": -1}, ValueError, "table 'ads': seed must be in 0..18446744073709551615, got -1"),
        ({"max_bytes": 2**64}, ValueError, "table 'ads': max_bytes must be in 0..18446744073709551615, got"),
        ({"dtype": "float64"}, ValueError, "dtype must be float32, float16 or bfloat16, got 'float64'"),
        ({"rule": "adagard"}, ValueError, "unknown rule 'adagard'; did you mean 'adagrad'?"),
        ({"rule_args": {"lrr": 1}}, ValueError, "rule sgd: unknown argument 'lrr'"),
        ({"initializer_args": {"low": 0}}, ValueError, "initializer uniform: high is missing"),
        ({"entry": "never"}, ValueError, "there is no entry policy 'never'"),
        ({"entry_args": {"count": 1}}, ValueError, "entry always has no argument 'count'"),
        ({"bounds": (1.0, 1.0)}, ValueError, "table 'ads': the lower bound must be below the upper one"),
        ({"bounds": (0.1, float("nan"))}, ValueError, "table 'ads': the lower bound must be below the upper one"),
    ],
)
def test_bad_tables(more: dict[str, Any], error: type[Exception], message: str) -> None:
    check_one_line(lambda: make_table(**more), error, message)


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (np.zeros(3, dtype=np.int32), TypeError, "keys must be int64, got int32"),
        (np.zeros((2, 2), dtype=np.int64), ValueError, "keys must have 1 dimension, got 2"),
        (np.zeros(6, dtype=np.int64)[::2], ValueError, "keys must be contiguous"),
        ([1, 2], TypeError, "keys must be a numpy array or a CPU tensor, got list"),
        (None, TypeError, "keys must be a numpy array or a CPU tensor, got NoneType"),
    ],
)
def test_bad_keys(keys: Any, error: type[Exception], message: str) -> None:
    table = make_table()
    for call in (
        lambda: table.pull(keys),
        lambda: table.find(keys),
        lambda: table.assign(keys, floats(1, 2)),
        lambda: table.push(keys, floats(1, 2), step=1, lr=0.1),
    ):
        check_one_line(call, error, message)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"grads": floats(3, 2)}, ValueError, "grads must have shape [2, 2], got [3, 2]"),
        ({"grads": floats(2, 3)}, ValueError, "grads must have shape [2, 2], got [2, 3]"),
        ({"grads": floats(4)}, ValueError, "grads must have shape [2, 2], got [4]"),
        ({"grads": np.zeros((2, 2))}, TypeError, "grads must be float32, got float64"),
        ({"grads": floats(2, 4)[:, ::2]}, ValueError, "grads must be contiguous"),
        ({"grads": None}, TypeError, "grads must be a numpy array or a CPU tensor, got NoneType"),
        ({"grads": floats(2, 2, value=np.inf)}, ValueError, "table 'ads': the gradients of step 1 hold a NaN or an"),
        ({"counts": np.zeros(2, dtype=np.int64)}, TypeError, "counts must be uint32, got int64"),
        ({"counts": np.zeros(3, dtype=np.uint32)}, ValueError, "counts must have shape [2], got [3]"),
        ({"shows": np.zeros(2)}, TypeError, "shows must be float32, got float64"),
        ({"clicks": floats(2, 1)}, ValueError, "clicks must have shape [2], got [2, 1]"),
        ({"clicks": floats(2, value=np.nan)}, ValueError, "the shows and clicks of step 1 hold a NaN or an Inf"),
        ({"step": -1}, ValueError, "step must be in 0..4294967295, got -1"),
        ({"step": 2**32}, ValueError, "step must be in 0..4294967295, got 4294967296"),
        ({"step": "1"}, TypeError, "step must be an integer, got str"),
        ({"lr": float("nan")}, ValueError, "lr must be finite, got nan"),
        ({"lr": "fast"}, TypeError, "lr must be a number, got str"),
        ({"lr": -1}, ValueError, "table 'ads': the learning rate of step 1 must be finite and >= 0"),
        ({"scale": None}, TypeError, "scale must be a number, got NoneType"),
        ({"scale": 1e300}, ValueError, "and so must be its scale"),
        ({"skip_shards": -1}, ValueError, "skip_shards must be in 0..18446744073709551615, got -1"),
        ({"skip_shards": 2**64}, ValueError, "skip_shards must be in 0..18446744073709551615, got 184"),
    ],
)
def test_bad_pushes_change_nothing(more: dict[str, Any], error: type[Exception], message: str) -> None:
    table = clicks_table()
    arguments = {"keys": ints(1, 2), "grads": floats(2, 2), "step": 1, "lr": 0.1, **more}
    check_one_line(lambda: table.push(**arguments), error, message)
    if "skip_shards" not in more:
        check_one_line(lambda: table.check(**arguments), error, message)
    assert len(table) == table.num_waiting == 0


def test_a_check_changes_nothing() -> None:
    table = clicks_table()
    keys, grads = ints(1, 2, 1), floats(3, 2)
    assert table.check(keys, grads, step=1, lr=0.1, shows=floats(3, value=9)) is None  # type: ignore[func-returns-value]
    table.check(keys, floats(3, 2, value=np.nan), step=1, lr=0.1, skip_nonfinite=True)
    assert len(table) == table.num_waiting == table.memory_bytes == 0
    huge = floats(3, 2, value=3e38)
    check_one_line(lambda: table.check(keys, huge, step=7, lr=0.1), ValueError, "the gradients of step 7 hold a NaN or")
    table.check(keys, huge, step=7, lr=0.1, skip_nonfinite=True)
    table.check(ints(1, 2, 3), huge, step=7, lr=0.1)


def test_the_largest_magnitude() -> None:
    assert _native.largest(np.array([[1, -3], [2, 0]], np.float32)) == 3
    assert _native.largest(floats(0, 4)) == 0
    assert _native.largest(floats(3, value=np.nan)) == float("inf")
    doubles: Any = np.zeros(3)
    check_one_line(lambda: _native.largest(doubles), TypeError, "values must be float32, got float64")


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"now": -1}, ValueError, "now must be in 0..4294967295, got -1"),
        ({"now": 1, "unseen_steps": 1.5}, TypeError, "unseen_steps must be an integer, got float"),
        ({"now": 1, "decay": 1.5}, ValueError, "decay must be in 0..1, got 1.5"),
        ({"now": 1, "score_below": float("nan")}, ValueError, "score_below must be finite, got nan"),
        ({"now": 1, "skip_shards": 2**64}, ValueError, "skip_shards must be in 0..18446744073709551615, got 184"),
        ({"now": 1, "score_below": 0.5}, ValueError, "table 'ads' counts no shows and clicks, so its rows have no"),
    ],
)
def test_bad_shrinks(more: dict[str, Any], error: type[Exception], message: str) -> None:
    check_one_line(lambda: make_table().shrink(**more), error, message)


def test_shards_that_are_skipped_stay_as_they_are() -> None:
    keys = np.arange(1000)
    table = make_table()
    arguments: dict[str, Any] = {"grads": floats(1000, 2), "step": 1, "lr": 1.0}
    created = [table.push(keys, **arguments, skip_shards=mask)["created"] for mask in (1, 2**64 - 2)]
    assert created == [1000 - len(table.export(0, 1)["keys"]), len(table.export(0, 1)["keys"])]
    np.testing.assert_array_equal(table.pull(keys), first_values(keys) - 1)
    assert table.shrink(now=9, unseen_steps=1, skip_shards=2**64 - 2) == created[1]
    assert len(table) == created[0]


@pytest.mark.parametrize(("first", "last"), [(0, 65), (3, 2), (-1, 2), (0, None)])
def test_bad_shards(first: Any, last: Any) -> None:
    check_one_line(lambda: make_table().export(first, last), (ValueError, TypeError), "_shard must be ")


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"state": None}, ValueError, "rows lack 'state'"),
        ({"waiting_keys": None}, ValueError, "rows lack 'waiting_keys'"),
        ({"waiting_clicks": None}, ValueError, "rows lack 'waiting_clicks'"),
        ({"keys": ints(1)}, ValueError, "seen must have shape [1], got [2]"),
        ({"keys": floats(2)}, TypeError, "keys must be int64, got float32"),
        ({"values": floats(2, 3)}, ValueError, "values must have shape [2, 2], got [2, 3]"),
        ({"values": np.zeros((2, 2), np.uint16)}, TypeError, "values must be float32, got uint16"),
        ({"state": floats(2, 1)}, ValueError, "state must have shape [2, 2], got [2, 1]"),
        ({"step": np.zeros(2, np.int32)}, TypeError, "step must be uint32, got int32"),
    ],
)
def test_bad_rows(more: dict[str, Any], error: type[Exception], message: str) -> None:
    table = clicks_table()
    table.push(ints(1, 2), floats(2, 2), step=1, lr=0.1, shows=floats(2, value=9))
    rows = {name: array for name, array in {**table.export(0, 64), **more}.items() if array is not None}
    other = clicks_table()
    check_one_line(lambda: other.import_(rows, 0, 1), error, message)
    assert len(other) == 0


def test_bad_servers() -> None:
    table = make_table()
    rows = table.export(0, 64)
    check_one_line(lambda: table.import_(rows, 2, 2), ValueError, "server must be in 0..1, got 2")
    check_one_line(lambda: table.import_(rows, 0, 0), ValueError, "num_servers must be in 1..65536, got 0")
    check_one_line(lambda: table.import_([], 0, 1), TypeError, "rows must be a dict of arrays, got list")  # type: ignore[arg-type]


def test_nothing_at_all() -> None:
    table = make_table()
    assert table.pull(ints()).shape == (0, 2)
    assert table.find(ints()).shape == (0,)
    assert table.push(ints(), floats(0, 2), step=0, lr=0) == dict.fromkeys(
        ("created", "waiting", "skipped", "evicted"), 0
    )
    table.assign(ints(), floats(0, 2))
    assert table.import_(table.export(0, 64), 0, 1) == table.import_(table.export(5, 5), 0, 1) == 0
    assert len(table) == table.memory_bytes == table.num_waiting == 0


def test_read_only_arrays_are_fine() -> None:
    table, other = clicks_table(), clicks_table()
    arrays: dict[str, Any] = {
        "keys": ints(7, -7),
        "grads": floats(2, 2),
        "counts": np.array([1, 2], dtype=np.uint32),
        "shows": floats(2, value=5),
        "clicks": floats(2),
    }
    for array in arrays.values():
        array.flags.writeable = False
    table.push(step=1, lr=0.1, **arrays)
    rows = table.export(0, 64)
    for array in rows.values():
        array.flags.writeable = False
    assert other.import_(rows, 0, 1) == 2
    np.testing.assert_array_equal(other.pull(arrays["keys"]), first_values(arrays["keys"]))
    other.assign(arrays["keys"], arrays["grads"])
    np.testing.assert_array_equal(other.pull(arrays["keys"]), arrays["grads"])


def test_results_own_their_memory() -> None:
    table = make_table()
    pulled = table.pull(ints(1, 2))
    table.push(ints(1, 2), floats(2, 2), step=1, lr=1)
    rows = table.export(0, 64)
    table.clear()
    del table
    np.testing.assert_array_equal(pulled, first_values(ints(1, 2)))
    order = np.argsort(rows["keys"])
    np.testing.assert_array_equal(rows["values"][order], pulled - 1)
    pulled[:] = 0  # writable


@pytest.mark.parametrize(("dtype", "stored"), [("float32", "float32"), ("float16", "uint16"), ("bfloat16", "uint16")])
def test_export_names_and_types(dtype: str, stored: str) -> None:
    table = make_table(rule="adam", entry="count_filter", entry_args={"count": 2}, dtype=dtype)
    table.push(ints(1, 2), floats(2, 2), step=7, lr=0.1, counts=np.array([1, 2], dtype=np.uint32))
    rows = table.export(0, table.num_shards)
    assert set(rows) == MARKS | {f"waiting_{name}" for name in MARKS} | {"values", "state"}
    assert (table.width, table.state_width, table.has_clicks, table.counts) == (2, 5, False, True)
    assert rows["keys"].tolist() == [2]
    assert rows["waiting_keys"].tolist() == [1]
    assert rows["seen"].tolist() == [2]
    assert rows["waiting_step"].tolist() == [7]
    assert rows["values"].shape == (1, 2)
    assert rows["state"].shape == (1, 5)
    for name, expected in {"values": stored, "state": "float32", "seen": "uint32"}.items():
        assert rows[name].dtype == np.dtype(expected)
    if dtype == "float16":
        np.testing.assert_array_equal(rows["values"].view(np.float16).astype(np.float32), table.pull(ints(2)))


some_keys = st.lists(st.one_of(st.integers(-5, 5), st.sampled_from([INT64.min, INT64.max, 0])), max_size=12)
requests = st.lists(
    st.tuples(st.sampled_from(["push", "push", "assign", "move", "shrink"]), some_keys, st.integers(1, 100)),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(requests)
def test_sgd_is_a_dict(requests: list[tuple[str, list[int], int]]) -> None:
    """Whatever comes: sums of small whole numbers and a rate of 1/2 are exact, so the order does not matter."""
    table = make_table(width=1, initializer="constant", initializer_args={"value": 3})
    model: dict[int, float] = {}
    steps: dict[int, int] = {}
    for now, (what, keys, number) in enumerate(requests, start=1):
        array = np.array(keys, dtype=np.int64)
        rows = np.arange(number, number + len(keys), dtype=np.float32).reshape(-1, 1)
        if what == "push":
            before = len(model)
            for key, grad in zip(keys, rows[:, 0], strict=True):
                model[key] = model.get(key, 3.0) - 0.5 * float(grad)
                steps[key] = now
            assert table.push(array, rows, step=now, lr=0.5)["created"] == len(model) - before
        elif what == "assign":
            table.assign(array, rows, step=now)
            for key, value in zip(keys, rows[:, 0], strict=True):
                model[key] = float(value)
                steps[key] = now
        elif what == "move":
            moved = make_table(width=1, initializer="constant", initializer_args={"value": 3})
            servers = 1 + number % 4
            assert sum(moved.import_(table.export(0, 64), server, servers) for server in range(servers)) == len(model)
            table = moved
        else:
            gone = [key for key in model if now - steps[key] > 2]
            assert table.shrink(now=now, unseen_steps=2) == len(gone)
            for key in gone:
                del model[key], steps[key]
        assert len(table) == len(model)
        known = np.array([*range(-6, 7), INT64.min, INT64.max], dtype=np.int64)
        assert table.pull(known)[:, 0].tolist() == [model.get(key, 3.0) for key in known.tolist()]
        assert table.find(known).tolist() == [key in model for key in known.tolist()]


def test_keys_without_a_row_are_zeros_if_asked_for() -> None:
    table = make_table()
    keys = np.array([5, 6])
    table.push(keys[:1], np.zeros((1, 2), np.float32), step=0, lr=1.0)
    first = table.pull(keys)
    assert first.all()
    np.testing.assert_array_equal(table.pull(keys, zeros=True), [first[0], [0, 0]])


def test_assigned_rows_are_new_ones_and_leave_shards_that_have_them() -> None:
    table = make_table(
        rule="adagrad", rule_args={"initial_accumulator_value": 0.5}, entry="count_filter", entry_args={"count": 2}
    )
    keys = np.arange(300)
    table.push(keys, floats(300, 2), step=1, lr=0.1)
    assert (len(table), table.num_waiting) == (0, 300)
    table.assign(keys, floats(300, 2, value=3), step=4)
    assert (len(table), table.num_waiting, table.newest_step) == (300, 0, 4)
    table.push(keys, floats(300, 2), step=5, lr=0.1)
    before = table.export(0, 64)
    assert not (before["state"] == 0.5).any()
    even = sum(1 << shard for shard in range(0, 64, 2))
    table.assign(keys, floats(300, 2, value=9), step=6, skip_shards=even)
    for shard in range(64):
        rows = table.export(shard, shard + 1)
        is_old = shard % 2 == 0
        assert (rows["step"] == (5 if is_old else 6)).all()
        assert ((rows["state"] == 0.5).all() and (rows["seen"] == 0).all()) != is_old or not len(rows["keys"])
    with pytest.raises(ValueError, match="step"):
        table.assign(keys, floats(300, 2), step=-1)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, None])
def test_rows_have_at_most_the_largest_norm(norm_type: float | None) -> None:
    keys = np.arange(1000)
    free, table = make_table(), make_table(max_norm=0.5, norm_type=norm_type)
    table.push(keys[:500], np.zeros((500, 2), np.float32), step=0, lr=1.0)
    rows = free.pull(keys)
    norms = np.linalg.norm(rows, np.inf if norm_type is None else norm_type, axis=1, keepdims=True)
    expected = np.where(norms > 0.5, rows * (0.5 / (norms + 1e-7)), rows)
    np.testing.assert_allclose(table.pull(keys), expected, rtol=0, atol=2e-7)


@pytest.mark.parametrize(
    "wrong", [{"max_norm": 0.0}, {"max_norm": float("nan")}, {"max_norm": float("inf")}, {"norm_type": 0.0}]
)
def test_a_norm_must_be_above_zero(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"table 'ads': {next(iter(wrong))} must be"):
        make_table(**wrong)


@pytest.mark.parametrize(("dtype", "deviation"), [("float16", 0.02), ("bfloat16", 0.2)])
def test_rows_in_16_bits_learn_from_small_steps(dtype: str, deviation: float) -> None:
    """To the nearest, 1 would stay 1: a thousandth is less than half of what lies between two numbers there."""
    keys = np.arange(500)

    def learned(steps: range, table: _native.Table, seed: int = 0) -> _native.Table:
        after = make_table(8, dtype=dtype, seed=seed)
        after.import_(table.export(0, 64), 0, 1)
        for step in steps:
            after.push(keys, floats(500, 8, value=0.001), step=step, lr=1.0)
        return after

    start = make_table(8, dtype=dtype)
    start.assign(keys, floats(500, 8))
    rows = learned(range(1000), start).pull(keys)
    assert abs(rows.mean()) < 5 * rows.std() / 4000**0.5
    assert 0 < rows.std() < deviation
    again = learned(range(400, 1000), learned(range(400), start))
    np.testing.assert_array_equal(again.pull(keys), rows)
    assert (learned(range(1000), start, seed=1).pull(keys) != rows).mean() > 0.5
    rounded = learned(range(1), start).pull(keys) - (1 - np.float32(0.001))
    assert abs(rounded.mean()) < 5 * rounded.std() / 4000**0.5
    assert rounded.std() > 0


def test_the_newest_step() -> None:
    table = make_table(entry="count_filter", entry_args={"count": 2})
    assert table.newest_step == 0
    table.push(ints(1, 1, 2), floats(3, 2), step=7, lr=0.1)
    table.push(ints(3), floats(1, 2), step=9, lr=0.1)  # waits
    assert table.newest_step == 9
    other = make_table(entry="count_filter", entry_args={"count": 2})
    other.import_(table.export(0, 64), 0, 1)
    assert (other.newest_step, len(other), other.num_waiting) == (9, 1, 2)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_pushes_of_one_step_are_a_push_of_all_joined(num_threads: int) -> None:
    rng = np.random.default_rng(5)
    columns = []
    for worker in range(3):
        keys = np.unique(rng.integers(0, 60_000, 30_000))
        grads = rng.normal(size=(len(keys), 4)).astype(np.float32)
        grads[worker] = np.nan
        counts = None if worker == 1 else rng.integers(1, 9, len(keys)).astype(np.uint32)
        shows, clicks = (rng.random(len(keys)).astype(np.float32) for _ in range(2))
        columns.append((keys, grads, counts, shows, clicks if worker else None))
    filled = [
        (keys, grads, np.ones(len(keys), np.uint32) if counts is None else counts, shows, clicks)
        for keys, grads, counts, shows, clicks in columns
    ]
    filled = [(*one[:4], np.zeros(len(one[0]), np.float32) if one[4] is None else one[4]) for one in filled]
    joined = [np.concatenate(parts) for parts in zip(*filled, strict=True)]

    def make() -> _native.Table:
        entry = {"threshold": 2.0, "nonclk_coeff": 0.5, "click_coeff": 1.0}
        return _native.Table("t", 4, "adagrad", {}, "uniform", {"low": -1.0, "high": 1.0}, "show_click", entry)

    expected, found = make(), make()
    before = _native.num_threads()
    _native.set_threads(num_threads)
    for step in (1, 2):
        how: dict[str, Any] = {"step": step, "lr": 0.1, "scale": 1 / 3, "skip_nonfinite": True, "skip_shards": 5}
        more: dict[str, Any] = dict(zip(("counts", "shows", "clicks"), joined[2:], strict=True))
        assert found.push_all(columns, **how) == expected.push(joined[0], joined[1], **how, **more)
    _native.set_threads(before)
    for name, values in expected.export(0, 64).items():
        np.testing.assert_array_equal(found.export(0, 64)[name], values)


def test_what_is_no_push_is_refused() -> None:
    table = _native.Table("t", 1, "sgd", {}, "constant", {"value": 0.0}, "always", {})
    keys, grads = np.arange(2), np.ones((2, 1), np.float32)
    with pytest.raises(TypeError, match=r"pushes\[1\] must be a tuple of keys, grads, counts, shows, clicks"):
        table.push_all([(keys, grads, None, None, None), (keys, grads)], step=1, lr=0.1)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="pushes must be a sequence"):
        table.push_all(3, step=1, lr=0.1)  # type: ignore[arg-type]
    grads[0] = np.inf
    for call in (table.push_all, table.check_all):
        with pytest.raises(ValueError, match="hold a NaN or an Inf; nothing was applied"):
            call([(keys, grads, None, None, None)], step=1, lr=0.1)
    assert len(table) == 0


def test_pushes_are_summed_by_key_in_their_order() -> None:
    first = (ints(1, 5), np.array([[1e8], [2.0]], np.float32), None, None, None)
    second = (ints(5, 1), np.array([[3.0], [1.0]], np.float32), np.array([4, 2], np.uint32), None, None)
    third = (ints(1), np.array([[-1e8]], np.float32), None, None, None)
    keys, grads, counts, shows, clicks = _native.sum_pushes([first, second, third], 1)
    assert keys.tolist() == [1, 5]
    assert grads.tolist() == [[0.0], [5.0]]  # 1e8 + 1 is 1e8: the order is that of the pushes
    assert counts is not None
    assert counts.tolist() == [4, 5]
    assert shows is None
    assert clicks is None
    one = _native.sum_pushes([first], 1)
    assert (one[0].tolist(), one[1].tolist(), one[2]) == ([1, 5], [[1e8], [2.0]], None)
    shown = (*first[:2], None, np.array([1.0, 2.0], np.float32), np.array([0.0, 1.0], np.float32))
    _, _, _, shows, clicks = _native.sum_pushes([shown, second], 1)
    assert shows is not None
    assert clicks is not None
    assert (shows.tolist(), clicks.tolist()) == ([3.0, 6.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="pushes must not be empty"):
        _native.sum_pushes([], 1)
    with pytest.raises(ValueError, match="grads"):
        _native.sum_pushes([first], 2)
