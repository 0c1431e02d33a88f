"""The core's lookups of rows against numpy, on inputs kind and hostile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

Floats = npt.NDArray[np.float32]
Keys = npt.NDArray[np.int64]

INT64 = np.iinfo(np.int64)
WIDTHS = [0, 1, 2, 3, 4, 7, 8, 10, 12, 16, 17, 32, 64, 65]


def floats(*shape: int, seed: int = 0) -> Floats:
    """Small integers: sums are exact, whatever their order."""
    return np.random.default_rng(seed).integers(-20, 20, shape).astype(np.float32)


def indices(num_rows: int, *shape: int) -> Keys:
    return np.random.default_rng(1).integers(0, num_rows, shape)


def check_slots(num_rows: int, width: int, slots: int, batch: int, before: int, after: int) -> None:
    """Slots go to the columns between `before` and `after` others, which stay as they are."""
    rows, inverse = floats(num_rows, width), indices(num_rows, slots, batch)
    columns = slice(before, before + slots * width)
    matrix = np.full((batch, before + slots * width + after), -7, dtype=np.float32)
    expected = matrix.copy()
    expected[:, columns] = rows[inverse.T].reshape(batch, slots * width)
    _native.gather(rows, inverse, matrix[:, columns])
    np.testing.assert_array_equal(matrix, expected)

    grads = floats(*matrix.shape, seed=2)
    grad_rows = floats(num_rows, width, seed=3)
    expected = grad_rows.copy()
    np.add.at(expected, inverse.T, grads[:, columns].reshape(batch, slots, width))
    _native.scatter(grads[:, columns], inverse, grad_rows)
    np.testing.assert_array_equal(grad_rows, expected)


def check_bags(width: int, lengths: list[int], mean: bool, include_last_offset: bool) -> None:
    num_rows, n = 30, sum(lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    offsets = ends if include_last_offset else ends[:-1]
    rows, inverse = floats(num_rows, width), indices(num_rows, n)
    out = np.full((len(lengths), width + 2), -7, dtype=np.float32)
    _native.pool_bags(rows, inverse, offsets, out[:, 1 : width + 1], mean, include_last_offset)
    grad_rows = np.zeros((num_rows, width), dtype=np.float32)
    grads = floats(*out.shape, seed=2)
    _native.unpool_bags(grads[:, 1 : width + 1], inverse, offsets, grad_rows, mean, include_last_offset)

    expected, expected_grads = np.zeros((len(lengths), width)), np.zeros((num_rows, width))
    for bag, length in enumerate(lengths):
        members = inverse[ends[bag] : ends[bag + 1]]
        share = 1 / length if mean and length > 0 else 1.0
        expected[bag] = rows[members].sum(0, dtype=np.float64) * share
        np.add.at(expected_grads, members, grads[bag, 1 : width + 1].astype(np.float64) * share)
    np.testing.assert_allclose(out[:, 1 : width + 1], expected, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(grad_rows, expected_grads, rtol=1e-6, atol=1e-5)
    assert (out[:, [0, -1]] == -7).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("slots", "batch"), [(1, 50), (26, 64), (26, 131), (3, 7), (3, 0), (0, 3), (1, 0), (1, 1)])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (3, 2)])
def test_slots_land_in_their_columns(width: int, slots: int, batch: int, before: int, after: int) -> None:
    check_slots(40, width, slots, batch, before, after)


@pytest.mark.parametrize(("slots", "batch"), [(1, 5000), (7, 700)])
def test_more_rows_than_a_cache_holds(slots: int, batch: int) -> None:
    check_slots(40_000, 10, slots, batch, 0, 0)
    check_slots(40_000, 10, slots, batch, 1, 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 5), st.integers(0, 80), st.integers(0, 3))
def test_slots_of_any_size(num_rows: int, width: int, slots: int, batch: int, before: int) -> None:
    check_slots(num_rows, width, slots, batch, before, 1)


def test_an_inverse_of_one_dimension() -> None:
    rows, inverse = floats(9, 5), indices(9, 30)
    out = np.empty((30, 5), dtype=np.float32)
    _native.gather(rows, inverse, out)
    np.testing.assert_array_equal(out, rows[inverse])


def test_gradients_are_summed_in_order() -> None:
    """1e8 + 1 - 1e8 is 0 in float32, 1e8 - 1e8 + 1 is 1."""
    grad_rows = np.zeros((1, 1), dtype=np.float32)
    grads = np.array([[1e8], [1.0], [-1e8], [3.0]], dtype=np.float32)
    _native.scatter(grads, np.zeros(4, dtype=np.int64), grad_rows)
    assert grad_rows.item() == 3.0


def test_gradients_that_repeat_one_row() -> None:
    """A stride of 0, as torch's expand makes."""
    grad_rows = np.zeros((2, 3), dtype=np.float32)
    grads = np.broadcast_to(np.array([1, 2, 3], dtype=np.float32), (4, 3))
    _native.scatter(grads, np.array([1, 1, 0, 1]), grad_rows)
    np.testing.assert_array_equal(grad_rows, [[1, 2, 3], [3, 6, 9]])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("include_last_offset", [False, True])
def test_bags(width: int, mean: bool, include_last_offset: bool) -> None:
    for lengths in ([], [0], [0, 0], [3], [1, 0, 5, 0], [0, 2, 1, 40]):
        check_bags(width, lengths, mean, include_last_offset)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 20), st.lists(st.integers(0, 30), max_size=20), st.booleans(), st.booleans())
def test_bags_of_any_size(width: int, lengths: list[int], mean: bool, include_last_offset: bool) -> None:
    check_bags(width, lengths, mean, include_last_offset)


def test_entries_after_the_last_offset_belong_to_no_bag() -> None:
    rows, out = floats(4, 2), np.empty((1, 2), dtype=np.float32)
    _native.pool_bags(rows, np.array([0, 1, 2]), np.array([0, 2]), out, False, True)
    np.testing.assert_array_equal(out, [rows[0] + rows[1]])


@pytest.mark.parametrize("bad", [-1, 4, INT64.min, INT64.min + 1, INT64.max])
@pytest.mark.parametrize("position", [0, 1, 4])
def test_an_inverse_that_names_no_row(bad: int, position: int) -> None:
    inverse = np.zeros(5, dtype=np.int64)
    inverse[position] = bad
    rows, out, offsets = floats(4, 3), np.zeros((5, 3), dtype=np.float32), np.arange(5)
    calls: list[Callable[[], None]] = [
        lambda: _native.gather(rows, inverse, out),
        lambda: _native.scatter(out, inverse, rows),
        lambda: _native.pool_bags(rows, inverse, offsets, out, True, False),
        lambda: _native.unpool_bags(out, inverse, offsets, rows, False, False),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=rf"inverse names row {bad}, but there are 4 rows"):
            call()
    assert not out.any()
    np.testing.assert_array_equal(rows, floats(4, 3))


def test_a_lookup_in_no_rows() -> None:
    none = np.zeros((0, 3), dtype=np.float32)
    with pytest.raises(ValueError, match="inverse names row 0, but there are 0 rows"):
        _native.gather(none, np.zeros(1, dtype=np.int64), np.zeros((1, 3), dtype=np.float32))
    _native.gather(none, np.zeros(0, dtype=np.int64), none)


@pytest.mark.parametrize("offsets", [[1], [-1, 2], [0, 6], [0, 6, 5], [0, 3, 2], [0, INT64.min], [0, INT64.max]])
@pytest.mark.parametrize("include_last_offset", [False, True])
def test_offsets_that_cannot_be(offsets: list[int], include_last_offset: bool) -> None:
    rows, inverse = floats(4, 3), np.zeros(5, dtype=np.int64)
    out = np.zeros((len(offsets) - include_last_offset, 3), dtype=np.float32)
    starts = np.array(offsets)
    with pytest.raises(ValueError, match="offsets must begin with 0, never decrease and stay within the 5 entries"):
        _native.pool_bags(rows, inverse, starts, out, False, include_last_offset)
    with pytest.raises(ValueError, match="offsets must begin with 0, never decrease and stay within the 5 entries"):
        _native.unpool_bags(out, inverse, starts, rows, False, include_last_offset)


def test_no_offsets_but_the_last() -> None:
    with pytest.raises(ValueError, match="offsets must hold at least the end of the last bag"):
        _native.pool_bags(floats(1, 1), np.zeros(0, np.int64), np.zeros(0, np.int64), floats(0, 1), False, True)


def read_only(array: Floats) -> Floats:
    array.flags.writeable = False
    return array


GOOD: dict[str, Any] = {"rows": floats(4, 3), "inverse": np.zeros(5, np.int64), "out": floats(5, 3)}


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ({"rows": np.zeros((4, 3))}, TypeError, "rows must be float32, got float64"),
        ({"rows": np.zeros((4, 3), dtype=">f4")}, TypeError, "rows must be float32, got >f4"),
        ({"rows": None}, TypeError, "rows must be a numpy array or a CPU tensor, got NoneType"),
        ({"rows": [[1.0]]}, TypeError, "rows must be a numpy array or a CPU tensor, got list"),
        ({"rows": floats(4)}, ValueError, "rows must have 2 dimensions, got 1"),
        ({"rows": floats(4, 6)[:, ::2]}, ValueError, "rows must have contiguous rows"),
        ({"rows": floats(4, 6)[:, :3]}, ValueError, "rows must be contiguous"),
        ({"rows": floats(4, 3)[::-1]}, ValueError, "rows must be contiguous"),
        ({"inverse": np.zeros(5, np.int32)}, TypeError, "inverse must be int64, got int32"),
        ({"inverse": np.zeros((5, 1, 1), np.int64)}, ValueError, "inverse must have 1 or 2 dimensions, got 3"),
        ({"inverse": np.zeros(10, np.int64)[::2]}, ValueError, "inverse must be contiguous"),
        ({"out": floats(4, 3)}, ValueError, r"out must have shape \[5, 3\], got \[4, 3\]"),
        ({"out": floats(5, 4)}, ValueError, r"out must have shape \[5, 3\], got \[5, 4\]"),
        ({"inverse": np.zeros((2, 5), np.int64)}, ValueError, r"out must have shape \[5, 6\], got \[5, 3\]"),
        ({"out": np.zeros((5, 3))}, TypeError, "out must be float32, got float64"),
        ({"out": read_only(floats(5, 3))}, ValueError, "out must be writable"),
        ({"out": floats(5, 6)[:, ::2]}, ValueError, "out must have contiguous rows"),
        ({"out": floats(5, 3)[::-1]}, ValueError, "out has rows that overlap"),
        ({"out": np.lib.stride_tricks.as_strided(floats(9), (5, 3), (4, 4))}, ValueError, "out has rows that overlap"),
    ],
)
def test_bad_gather(bad: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        _native.gather(**(GOOD | bad))
    assert "\n" not in str(caught.value)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    rows, inverse = torch.from_numpy(floats(4, 3)), torch.tensor([[3, 0], [1, 1]])
    wide = torch.zeros(2, 8)
    _native.gather(rows, inverse, wide[:, 1:7])
    assert torch.equal(wide[:, 1:7], rows[inverse.t()].flatten(1))
    assert not wide[:, [0, 7]].any()
    with pytest.raises(TypeError, match=r"rows must be float32, got torch\.float16"):
        _native.gather(rows.half(), inverse, wide[:, 1:7])


@pytest.mark.parametrize("width", WIDTHS)
def test_weights_multiply_rows(width: int) -> None:
    rows, inverse, offsets = floats(6, width), indices(6, 9), np.array([0, 0, 4, 7])
    weights, grads = floats(9, seed=4), floats(3, width, seed=5)
    out, grad_rows = np.full((3, width), -7, np.float32), np.zeros((6, width), np.float32)
    grad_weights = np.zeros(9, np.float32)
    _native.pool_weighted(rows, inverse, offsets, weights, out, True)
    _native.unpool_weighted(grads, inverse, offsets, weights, grad_rows, True)
    _native.grade_weights(grads, inverse, offsets, rows, grad_weights, True)
    scaled, bag = weights[:7, None] * rows[inverse[:7]], np.array([1] * 4 + [2] * 3)
    np.testing.assert_array_equal(out, [np.zeros(width), scaled[:4].sum(0), scaled[4:].sum(0)])
    expected = np.zeros((6, width), np.float32)
    np.add.at(expected, inverse[:7], weights[:7, None] * grads[bag])
    np.testing.assert_array_equal(grad_rows, expected)
    np.testing.assert_array_equal(grad_weights[:7], (rows[inverse[:7]] * grads[bag]).sum(1))
    assert not grad_weights[7:].any()


def test_weights_are_checked() -> None:
    rows, inverse, offsets, out = floats(2, 3), np.array([0, 1]), np.array([0]), floats(1, 3)
    with pytest.raises(ValueError, match=r"weights must have shape \[2\], one for each entry of inverse"):
        _native.pool_weighted(rows, inverse, offsets, floats(3), out, False)
    with pytest.raises(TypeError, match="weights must be a contiguous float32 array in CPU memory"):
        _native.pool_weighted(rows, inverse, offsets, np.ones(2), out, False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="grad_weights must be a contiguous float32"):
        _native.grade_weights(out, inverse, offsets, rows, floats(4)[::2], False)
    calls: tuple[Callable[[], None], ...] = (
        lambda: _native.pool_weighted(rows, inverse + 1, offsets, floats(2), out, False),
        lambda: _native.unpool_weighted(out, inverse + 1, offsets, floats(2), rows, False),
        lambda: _native.grade_weights(out, inverse + 1, offsets, rows, floats(2), False),
    )
    for call in calls:
        with pytest.raises(ValueError, match="inverse names row 2, but there are 2 rows"):
            call()
