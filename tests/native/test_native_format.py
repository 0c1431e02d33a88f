"""Formats of the wire against numpy, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from fleet import _native

FLOAT32, BFLOAT16, FLOAT16, INT8 = range(4)
Floats = npt.NDArray[np.float32]


def any_floats(n: int) -> Floats:
    """Of every size, denormal ones, infinities and NaN among them."""
    bits = np.random.default_rng(1).integers(0, 2**32, n, dtype=np.uint32)
    bits[:4] = [0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000]
    return bits.view(np.float32)


def back(rows: Floats, format: int) -> Floats:
    return _native.decode_rows(_native.encode_rows(rows, format), format, *rows.shape)


def test_float16_is_that_of_numpy() -> None:
    values = np.concatenate([any_floats(10_000), np.geomspace(1e-9, 1e5, 10_000, dtype=np.float32)]).reshape(-1, 10)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = values.astype(np.float16).astype(np.float32)
    wanted = np.where(np.isinf(wanted) & np.isfinite(values), np.copysign(np.float32(65504), values), wanted)
    np.testing.assert_array_equal(back(values, FLOAT16), wanted)


def test_bfloat16_is_the_nearest() -> None:
    values = any_floats(100_000)
    values = values[np.abs(values) < 3e38].reshape(-1, 1)
    bits = values.view(np.uint32).astype(np.uint64)
    below, above = (np.array(((bits >> 16) + more) << 16, np.uint32).view(np.float32) for more in (0, 1))
    exact, found = values.astype(np.float64), back(values, BFLOAT16)
    distance = np.minimum(np.abs(exact - below), np.abs(above - exact))
    np.testing.assert_array_equal(np.abs(found - exact), distance)


def test_rows_of_int8_stand_on_their_own() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    data = _native.encode_rows(rows, INT8)
    assert data.shape == (50, 9)
    order = np.random.default_rng(0).permutation(50)[:20]
    np.testing.assert_array_equal(_native.decode_rows(data[order], INT8, 20, 7), back(rows, INT8)[order])
    np.testing.assert_allclose(back(rows, INT8), rows, atol=0.51 / 127 * np.abs(rows).max())


def test_chance_is_a_function_of_seed_key_and_step() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 10)).astype(np.float32)
    keys = np.arange(40)
    for format in (FLOAT16, INT8):
        one = _native.encode_rows(rows, format, keys, 5, 6)
        np.testing.assert_array_equal(
            _native.encode_rows(rows[::-1].copy(), format, keys[::-1].copy(), 5, 6), one[::-1]
        )
        for other in ((keys + 1, 5, 6), (keys, 6, 6), (keys, 5, 7)):
            assert (_native.encode_rows(rows, format, *other) != one).any()
    np.testing.assert_array_equal(_native.encode_rows(rows, BFLOAT16, keys), _native.encode_rows(rows, BFLOAT16))


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: _native.encode_rows(np.ones(3, np.float32), 1), "rows must have 2 dimensions, got 1"),
        (lambda: _native.encode_rows(np.ones((3, 2)), 1), "rows must be float32, got float64"),  # type: ignore[arg-type]
        (lambda: _native.encode_rows(np.ones((3, 2), np.float32), 4), "format must be in 0..3, got 4"),
        (lambda: _native.encode_rows(np.ones((3, 2), np.float32), 3, np.arange(2)), "keys must have 3 elements, got 2"),
        (lambda: _native.decode_rows(np.zeros(11, np.uint8), 3, 3, 2), "data must have 12 bytes, got 11"),
        (lambda: _native.decode_rows(np.zeros(0, np.uint8), 1, 2**63, 2), "rows must be in 0..2147483648"),
        (lambda: _native.decode_vector(np.zeros(68, np.uint8), 3, 65), "data must have 69 bytes, got 68"),
        (lambda: _native.encode_vector(np.ones(3, np.float32), np.ones(2, np.float32), 1), "must have 3 elements"),
        (
            lambda: _native.spread(np.array([1, 1], np.int32), np.ones(2, np.float32), 3),
            "index must ascend and stay bel",
        ),
        (lambda: _native.spread(np.array([3], np.int32), np.ones(1, np.float32), 3), "stay below 3"),
        (lambda: _native.spread(np.array([0]), np.ones(1, np.float32), 3), "must be int32"),
    ],
)
def test_what_is_refused(call: Callable[[], object], line: str) -> None:
    with pytest.raises((ValueError, TypeError), match=line):
        call()


def test_memory_is_not_shared() -> None:
    values = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="values and residual must not share memory"):
        _native.encode_vector(values, values, 1)
    with pytest.raises(ValueError, match="grad and sum must not share memory"):
        _native.take_largest(values, values, 1, seed=0)


def test_the_largest_and_what_is_left() -> None:
    grad, total = np.array([1, -5, 2, 0], np.float32), np.array([1, 1, -9, 0], np.float32)
    places, values = _native.take_largest(grad, total, 2, seed=0)
    np.testing.assert_array_equal(places, [1, 2])
    np.testing.assert_array_equal(values, [-4, -7])
    np.testing.assert_array_equal(total, [2, 0, 0, 0])
    assert len(_native.take_largest(0 * grad, total, 3, seed=0)[0]) == 1, "only one is not zero"
