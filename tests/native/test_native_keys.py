"""The core's key functions against numpy and torch, on inputs kind and hostile."""

from __future__ import annotations

import sys
import threading
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

Keys = npt.NDArray[np.int64]

INT64 = np.iinfo(np.int64)
# The inverse of the multiplier in csrc/keys/unique_sort.cc: its small multiples all meet in one slot of the cache.
COLLIDE = np.uint64(0xF1DE83E19937733D)
SCRAMBLE = np.uint64(0x9E3779B97F4A7C15)


def ints(*values: int) -> Keys:
    return np.array(values, dtype=np.int64)


def hard_inputs() -> dict[str, Keys]:
    rng = np.random.default_rng(0)
    n = 20_000
    steps = np.arange(n, dtype=np.uint64)
    zipf = (rng.zipf(1.2, n) % 1_000_000).astype(np.int64)
    return {
        "empty": ints(),
        "one": ints(-3),
        "all equal": np.full(n, 42, dtype=np.int64),
        "all minus one": np.full(n, -1, dtype=np.int64),
        "extremes": ints(INT64.max, INT64.min, 0, -1, INT64.max, 1, INT64.min),
        "zipf": zipf,
        "zipf scrambled": (zipf.astype(np.uint64) * SCRAMBLE).astype(np.int64),
        "uniform": rng.integers(INT64.min, INT64.max, n, endpoint=True),
        "near": rng.integers(-500, 500, n),
        "few": rng.integers(INT64.min, INT64.max, 10)[rng.integers(0, 10, n)],
        "sorted": np.arange(n, dtype=np.int64) * 1000,
        "reversed": np.arange(n, dtype=np.int64)[::-1].copy() * 1000,
        "stride 2^40": (steps << np.uint64(40)).astype(np.int64),
        "one slot": (steps * COLLIDE).astype(np.int64),
        "one slot, repeated": np.tile((steps[:1000] * COLLIDE).astype(np.int64), 20),
        "crowded": np.concatenate([ints(INT64.min, INT64.max), np.arange(n, dtype=np.int64)[::-1]]),
    }


HARD = hard_inputs()
hard = pytest.mark.parametrize("keys", HARD.values(), ids=list(HARD))
any_keys = st.lists(
    st.one_of(st.integers(-5, 5), st.integers(INT64.min, INT64.max), st.sampled_from([INT64.min, INT64.max])),
    max_size=700,
).map(lambda values: np.array(values, dtype=np.int64))


def check_unique(keys: Keys) -> None:
    distinct, inverse = _native.unique(keys)
    expected, expected_inverse = np.unique(keys, return_inverse=True)
    np.testing.assert_array_equal(distinct, expected)
    np.testing.assert_array_equal(inverse, expected_inverse)
    assert distinct.dtype == inverse.dtype == np.int64


def check_split_and_merge(keys: Keys, num_servers: int) -> None:
    grouped, order, offsets = _native.split(keys, num_servers)
    server = _native.server_of(keys, num_servers)
    np.testing.assert_array_equal(order, np.argsort(server, kind="stable"))
    np.testing.assert_array_equal(grouped, keys[order])
    np.testing.assert_array_equal(np.diff(offsets), np.bincount(server, minlength=num_servers))
    assert offsets[0] == 0

    pieces = [grouped[start:end] for start, end in pairwise(offsets)]
    np.testing.assert_array_equal(_native.merge(pieces, order), keys)


def check_route(keys: Keys, num_servers: int) -> None:
    grouped, inverse, offsets, counts = _native.route(keys, num_servers, counts=True)
    distinct, times = np.unique(keys, return_counts=True)
    expected, order, expected_offsets = _native.split(distinct, num_servers)
    np.testing.assert_array_equal(grouped, expected)
    np.testing.assert_array_equal(offsets, expected_offsets)
    np.testing.assert_array_equal(grouped[inverse], keys)
    np.testing.assert_array_equal(counts, times[order])
    assert counts is not None
    assert counts.dtype == np.uint32
    assert grouped.dtype == inverse.dtype == offsets.dtype == np.int64
    without = _native.route(keys, num_servers)
    assert without[3] is None
    np.testing.assert_array_equal(without[1], inverse)


@hard
def test_unique_is_numpys(keys: Keys) -> None:
    check_unique(keys)


@hard
def test_unique_is_torchs(keys: Keys) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(keys)
    expected = torch.unique(tensor, return_inverse=True)
    for ours, theirs in zip(_native.unique(tensor), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy())


@settings(max_examples=60, deadline=None)
@given(any_keys)
def test_unique_of_anything(keys: Keys) -> None:
    check_unique(keys)


@hard
@pytest.mark.parametrize("num_servers", [1, 2, 5, 1000])
def test_split_and_merge(keys: Keys, num_servers: int) -> None:
    check_split_and_merge(keys, num_servers)


@settings(max_examples=60, deadline=None)
@given(any_keys, st.integers(1, 70))
def test_split_and_merge_anything(keys: Keys, num_servers: int) -> None:
    check_split_and_merge(keys, num_servers)


@hard
@pytest.mark.parametrize("num_servers", [1, 2, 5, 1000])
def test_route_is_unique_and_split(keys: Keys, num_servers: int) -> None:
    check_route(keys, num_servers)


@settings(max_examples=60, deadline=None)
@given(any_keys, st.integers(1, 70))
def test_route_of_anything(keys: Keys, num_servers: int) -> None:
    check_route(keys, num_servers)


def test_placement_never_changes() -> None:
    """Saved shards and servers of other versions depend on these values."""
    keys = ints(0, 1, 2, -1, 123456789, INT64.min, INT64.max)
    assert _native.server_of(keys, 1).tolist() == [0] * 7
    assert _native.server_of(keys, 3).tolist() == [2, 1, 1, 2, 0, 0, 0]
    assert _native.server_of(keys, 65536).tolist() == [57888, 37130, 38744, 58585, 8764, 18462, 10855]


def splitmix_placement(keys: Keys, num_servers: int) -> list[int]:
    """The contract of csrc/keys/hash.h, written a second time."""
    placed = []
    for key in keys.tolist():
        h = (key + 0x9E3779B97F4A7C15) % 2**64
        h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        h = (h ^ (h >> 27)) * 0x94D049BB133111EB % 2**64
        h ^= h >> 31
        placed.append((h >> 32) * num_servers >> 32)
    return placed


@hard
@pytest.mark.parametrize("num_servers", [2, 3, 65536])
def test_placement_is_the_documented_formula(keys: Keys, num_servers: int) -> None:
    assert _native.server_of(keys[:500], num_servers).tolist() == splitmix_placement(keys[:500], num_servers)


def test_placement_is_even() -> None:
    counts = np.bincount(_native.server_of(np.arange(100_000, dtype=np.int64), 10), minlength=10)
    assert counts.min() > 9_500
    assert counts.max() < 10_500


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("width", [None, 0, 1, 3, 8, 32, 33])
def test_merge_keeps_dtype_and_width(dtype: str, width: int | None) -> None:
    keys = np.random.default_rng(1).integers(0, 10**9, 999)
    shape = (len(keys),) if width is None else (len(keys), width)
    rows = (np.arange(np.prod(shape)) % 120).reshape(shape).astype(dtype)
    _, order, offsets = _native.split(keys, 4)
    pieces = np.split(rows[order], offsets[1:-1])
    merged = _native.merge(pieces, order)
    assert merged.dtype == rows.dtype
    np.testing.assert_array_equal(merged, rows)


def test_results_own_their_memory() -> None:
    distinct, inverse = _native.unique(ints(2, 1, 2))
    distinct[0] = 7  # writable
    _native.unique(ints(5, 6, 7, 8))
    assert distinct.tolist() == [7, 2]
    assert inverse.tolist() == [1, 0, 1]


def test_read_only_keys_are_fine() -> None:
    keys = ints(2, 1)
    keys.flags.writeable = False
    assert _native.unique(keys)[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (np.zeros(3, dtype=np.int32), TypeError, "keys must be int64, got int32"),
        (np.zeros(3, dtype=np.uint64), TypeError, "keys must be int64, got uint64"),
        (np.zeros(3), TypeError, "keys must be int64, got float64"),
        (np.zeros((2, 2), dtype=np.int64), ValueError, "keys must have 1 dimension, got 2"),
        (np.zeros((), dtype=np.int64), ValueError, "keys must have 1 dimension, got 0"),
        (np.zeros(6, dtype=np.int64)[::2], ValueError, "keys must be contiguous"),
        (np.zeros(6, dtype=np.int64)[::-1], ValueError, "keys must be contiguous"),
        ([1, 2], TypeError, "keys must be a numpy array or a CPU tensor, got list"),
        (None, TypeError, "keys must be a numpy array or a CPU tensor, got NoneType"),
        (b"12345678", TypeError, "keys must be int64, got bytes"),
        (np.zeros(3, dtype=">i8"), TypeError, "keys must be .* of plain numbers, got one of >i8"),
        (np.zeros(3, dtype="M8[s]"), TypeError, r"keys must be .* of plain numbers, got one of datetime64\[s\]"),
    ],
)
def test_bad_keys(keys: Any, error: type[Exception], message: str) -> None:
    calls = (_native.split, _native.route, _native.server_of)
    for call in (_native.unique, *(partial(call, num_servers=2) for call in calls)):
        with pytest.raises(error, match=message) as caught:
            call(keys)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("num_servers", [0, -1, 65537])
def test_bad_num_servers(num_servers: int) -> None:
    for call in (_native.split, _native.route, _native.server_of):
        with pytest.raises(ValueError, match=rf"num_servers must be in 1\.\.65536, got {num_servers}"):
            call(ints(1), num_servers)


@pytest.mark.parametrize("num_servers", [2**63, -(2**63) - 1, 10**30])
def test_num_servers_beyond_int64(num_servers: int) -> None:
    with pytest.raises(ValueError, match=rf"num_servers must be in 1\.\.65536, got {num_servers}"):
        _native.split(ints(1), num_servers)


@pytest.mark.parametrize("num_servers", [2.0, "2", None, ints(1, 2)], ids=lambda value: type(value).__name__)
def test_num_servers_that_is_no_integer(num_servers: Any) -> None:
    for call in (_native.split, _native.route, _native.server_of):
        with pytest.raises(TypeError) as caught:
            call(ints(1), num_servers)
        assert str(caught.value) == f"num_servers must be an integer, got {type(num_servers).__name__}"


def test_num_servers_of_numpy() -> None:
    assert _native.server_of(ints(1), np.int32(1)).tolist() == [0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pieces", "order", "error", "message"),
    [
        ([], ints(), ValueError, "at least one array"),
        ([np.zeros(2)], ints(0), ValueError, "pieces hold 2 rows, but order has 1 entries"),
        ([np.zeros(1), np.zeros(1, dtype=np.float32)], ints(0, 1), TypeError, r"pieces\[1\] .* differ in dtype"),
        ([np.zeros((1, 2)), np.zeros((1, 3))], ints(0, 1), ValueError, r"pieces\[1\] .* differ in width"),
        ([np.zeros((1, 1)), np.zeros(1)], ints(0, 1), ValueError, r"pieces\[1\] .* differ in width"),
        ([np.zeros((1, 1, 1))], ints(0), ValueError, "must have 1 or 2 dimensions, got 3"),
        ([np.zeros((2, 4))[:, ::2]], ints(0, 1), ValueError, r"pieces\[0\] must be contiguous"),
        ([np.zeros(2)], ints(0, 2), ValueError, r"order must name each of 0\.\.1 once"),
        ([np.zeros(2)], ints(-1, 0), ValueError, r"order must name each of 0\.\.1 once"),
        ([np.zeros(2)], ints(1, 1), ValueError, r"order must name each of 0\.\.1 once"),
        ([np.zeros(1)], np.zeros(1), TypeError, "order must be int64"),
        ([[1.0]], ints(0), TypeError, r"pieces\[0\] must be a numpy array"),
        ([np.zeros(1, dtype=">f4")], ints(0), TypeError, r"pieces\[0\] must be .*, got one of >f4"),
        (None, ints(), TypeError, "pieces must be a sequence of arrays, got NoneType"),
        ({0: np.zeros(1)}, ints(0), TypeError, "pieces must be a sequence of arrays, got dict"),
    ],
)
def test_bad_merge(pieces: Any, order: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        _native.merge(pieces, order)
    assert "\n" not in str(caught.value)


def ran_during_unique(keys: Keys) -> bool:
    """Whether a thread that was woken just before a call ran before the call was over."""
    go = threading.Event()
    over = False
    ran_before_over = False

    def look() -> None:
        nonlocal ran_before_over
        go.wait()
        ran_before_over = not over

    thread = threading.Thread(target=look)
    thread.start()
    go.set()
    _native.unique(keys)
    over = True
    thread.join()
    return ran_before_over


def test_the_gil_is_released() -> None:
    """With so long a switch interval the woken thread gets the GIL only if the call lets it go."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60.0)
    try:
        keys = np.random.default_rng(0).integers(INT64.min, INT64.max, 2_000_000)
        # The system may leave the thread waiting for one call, not for twenty.
        assert any(ran_during_unique(keys) for _ in range(20))
    finally:
        sys.setswitchinterval(interval)
