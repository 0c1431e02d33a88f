"""The core's rules on dense buffers and its initialisers, as Python sees them."""

from __future__ import annotations

import math
import sys
import threading
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fleet import _native

Floats = npt.NDArray[np.float32]

ARGS: dict[str, dict[str, float]] = {
    "adagrad": {},
    "adagrad_row": {},
    "adam": {},
    "adamax": {},
    "adamw": {},
    "average": {"lr": 0.5},
    "decayed_adagrad": {},
    "ftrl": {},
    "lamb": {},
    "lars": {"lr": 0.1},
    "momentum": {"lr": 0.1, "momentum": 0.9},
    "rmsprop": {},
    "sgd": {},
    "sum": {},
}
every_rule = pytest.mark.parametrize("name", ARGS)


def ones(n: int) -> Floats:
    return np.ones(n, dtype=np.float32)


def splitmix(x: int) -> int:
    """The hash of csrc/keys/hash.h, written a second time."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def draws(seed: int, table: str, key: int, width: int) -> list[float]:
    """The contract of csrc/init/draws.h, written a second time."""
    mixed = splitmix(seed)
    for byte in table.encode():
        mixed = splitmix(mixed ^ byte)
    state = splitmix(mixed ^ key % 2**64)
    halves: list[int] = []
    while len(halves) < width:
        bits = splitmix(state)
        state += 0x9E3779B97F4A7C15
        halves += [bits % 2**32, bits >> 32]
    return [(half + 0.5) / 2**32 for half in halves[:width]]


@every_rule
def test_a_rule_works_in_place(name: str) -> None:
    rule = _native.Rule(name, ARGS[name])
    for n in (0, 1, 5, 1000):
        values, state = ones(n), rule.start(n)
        assert state.shape == (rule.state_width(n),)
        assert state.dtype == np.float32
        rule.apply(values, state, np.zeros(n, np.float32) if name == "average" else ones(n), rule.lr)
        assert np.all(values > 1 if name == "sum" else values < 1)
        assert np.all(values == values[:1])


def test_sgd_and_sum_are_their_formulas() -> None:
    values, grads = np.arange(9, dtype=np.float32), np.full(9, 0.25, dtype=np.float32)
    _native.Rule("sgd", {"lr": 0.5, "maximize": True}).apply(values, ones(0), grads, 2)
    np.testing.assert_array_equal(values, np.arange(9) + 0.5)
    _native.Rule("sum", {}).apply(values, ones(0), grads, 2)
    np.testing.assert_array_equal(values, np.arange(9) + 0.75)


def test_average_takes_what_is_pushed_or_a_share_of_it() -> None:
    values, pushed = np.arange(9, dtype=np.float32), np.full(9, 0.1, dtype=np.float32)
    rule = _native.Rule("average", {})
    rule.apply(values, ones(0), pushed, 0.25)
    np.testing.assert_allclose(values, np.arange(9) * 0.75 + 0.025, rtol=1e-6)
    rule.apply(values, ones(0), pushed, 1)
    np.testing.assert_array_equal(values, pushed)


def test_adagrad_row_adds_the_mean_of_squares() -> None:
    rule = _native.Rule("adagrad_row", {"lr": 0.1, "lr_decay": 0.5, "initial_accumulator_value": 1.0})
    rng = np.random.default_rng(0)
    values = rng.normal(size=13).astype(np.float32)
    expected, total, state = values.astype(np.float64), 1.0, rule.start(13)
    for step in range(50):
        grads = rng.normal(size=13).astype(np.float32)
        rule.apply(values, state, grads, 0.1)
        total += float(np.mean(grads.astype(np.float64) ** 2))
        expected -= 0.1 / (1 + step * 0.5) * grads / (math.sqrt(total) + 1e-10)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state, [total, 50], rtol=1e-5)


def test_a_steady_gradient_does_not_make_centered_rmsprop_nan() -> None:
    rule = _native.Rule("rmsprop", {"centered": 1, "alpha": 0.5, "eps": 0.01})
    values, state, grads = ones(1000), rule.start(1000), np.linspace(-3, 3, 1000, dtype=np.float32)
    for _ in range(100):
        rule.apply(values, state, grads, 0.001)
    assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("adma", {}, "unknown rule 'adma'; did you mean 'adam'?"),
        ("adam", {"beta_1": 0.5}, "rule adam: unknown argument 'beta_1'; did you mean 'beta1'?"),
        ("adam", {"beta2": 1.5}, r"rule adam: beta2 must be in \[0, 1\), got 1.5"),
        ("sgd", {"lr": math.nan}, "rule sgd: lr must be a finite float32 number, got nan"),
        ("momentum", {"lr": 1.0}, "rule momentum: momentum is missing"),
    ],
)
def test_a_bad_rule_is_one_line(name: str, args: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        _native.Rule(name, args)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"values": np.ones(4)}, TypeError, "values must be float32, got float64"),
        ({"values": [1.0] * 4}, TypeError, "values must be a numpy array"),
        ({"values": None}, TypeError, "values must be a numpy array"),
        ({"values": np.ones((2, 2), dtype=np.float32)}, ValueError, "values must have 1 dimension, got 2"),
        ({"values": np.ones(8, dtype=np.float32)[::2]}, ValueError, "values must be contiguous"),
        ({"values": np.frombuffer(bytes(16), dtype=np.float32)}, ValueError, "values must be writable"),
        ({"state": np.frombuffer(bytes(36), dtype=np.float32)}, ValueError, "state must be writable"),
        ({"state": ones(8)}, ValueError, "state must have 9 elements, got 8"),
        ({"grads": ones(3)}, ValueError, "grads must have 4 elements, got 3"),
        ({"grads": np.ones(4, dtype=np.int64)}, TypeError, "grads must be float32, got int64"),
        ({"lr": -1.0}, ValueError, "lr must be >= 0 and finite, got -1"),
        ({"lr": math.nan}, ValueError, "lr must be >= 0 and finite, got nan"),
        ({"lr": math.inf}, ValueError, "lr must be >= 0 and finite, got inf"),
    ],
)
def test_bad_buffers_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    rule = _native.Rule("adam", {})
    given: dict[str, Any] = {"values": ones(4), "state": rule.start(4), "grads": ones(4), "lr": 0.1}
    with pytest.raises(error, match=message):
        rule.apply(**{**given, **change})
    np.testing.assert_array_equal(given["state"], rule.start(4))


def test_buffers_that_share_memory_are_refused() -> None:
    block = ones(12)
    rule = _native.Rule("momentum", {"lr": 0.1, "momentum": 0.9})
    for values, state, grads in [
        (block[:4], block[4:8], block[3:7]),
        (block[:4], block[2:6], block[8:]),
        (block[:4], block[4:8], block[7:11]),
    ]:
        with pytest.raises(ValueError, match="must not share memory"):
            rule.apply(values, state, grads, 0.1)
    rule.apply(block[:4], block[4:8], block[8:], 0.1)


@pytest.mark.parametrize("n", [-1, 1.5, "4", None])
def test_a_size_is_a_whole_number(n: Any) -> None:
    rule = _native.Rule("adam", {})
    for method in (rule.start, rule.state_width):
        with pytest.raises(TypeError):
            method(n)


def test_threads_may_share_a_rule() -> None:
    rule = _native.Rule("adam", {})
    grads = np.linspace(-1, 1, 5000, dtype=np.float32)

    def train() -> Floats:
        values, state = ones(5000), rule.start(5000)
        for _ in range(50):
            rule.apply(values, state, grads, 0.01)
        return values

    expected = train()
    results: list[Floats] = []
    threads = [threading.Thread(target=lambda: results.append(train())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_a_rule_does_not_leak() -> None:
    rule = _native.Rule("adam", {})
    values, state, grads = ones(3), rule.start(3), ones(3)
    before = [sys.getrefcount(array) for array in (values, state, grads)]
    for _ in range(100):
        rule.apply(values, state, grads, 0.1)
        with pytest.raises(ValueError):
            rule.apply(values, grads, state, 0.1)
    assert [sys.getrefcount(array) for array in (values, state, grads)] == before


def test_initial_rows_never_change() -> None:
    """Saved tables and servers of other versions depend on these values."""
    keys = np.array([-123456789], dtype=np.int64)

    def row(name: str, **args: float) -> list[str]:
        return [float(x).hex() for x in _native.initialize(name, args, 7, "ads", keys, 2)[0]]

    assert row("constant", value=0.5) == ["0x1.0000000000000p-1"] * 2
    assert row("uniform", low=-0.01, high=0.01) == ["0x1.8b44660000000p-8", "-0x1.20eeb00000000p-10"]
    assert row("normal") == ["0x1.b1c7600000000p-1", "-0x1.1bd0800000000p-3"]
    assert row("truncated_normal") == ["0x1.99117c0000000p-1", "-0x1.0ed2ce0000000p-3"]


def test_initial_rows_are_the_documented_formula() -> None:
    keys = np.array([0, 1, -1, 2**63 - 1, -(2**63), 42], dtype=np.int64)
    u = np.array([draws(2**64 - 1, "café", int(key), 101) for key in keys])
    normal = NormalDist()
    below = normal.cdf(-2)
    expected = {
        "uniform": u * 5 - 3,
        "normal": np.vectorize(normal.inv_cdf)(u) * 0.5 + 1,
        "truncated_normal": np.vectorize(normal.inv_cdf)(below + u * (1 - 2 * below)) * 0.5 + 1,
    }
    args = {"uniform": {"low": -3.0, "high": 2.0}}
    for name, rows in expected.items():
        given = args.get(name, {"mean": 1.0, "std": 0.5})
        ours = _native.initialize(name, given, 2**64 - 1, "café", keys, 101)
        assert ours.shape == (6, 101)
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, rows, rtol=1e-7, atol=1e-7)


def test_initial_rows_do_not_repeat() -> None:
    """Neither within a row nor from one to the next, of keys that lie close together."""
    rows = _native.initialize("normal", {}, 0, "t", np.arange(10_000, dtype=np.int64), 8).astype(np.float64)
    matrix = np.corrcoef(np.concatenate([rows[:-1], rows[1:]], axis=1), rowvar=False)
    assert np.abs(matrix - np.diag(np.diag(matrix)))[:8].max() < 0.05
    assert len(np.unique(rows)) > 79_000


def test_initial_rows_of_nothing() -> None:
    none = np.array([], dtype=np.int64)
    assert _native.initialize("uniform", {"low": 0, "high": 1}, 0, "t", none, 4).shape == (0, 4)
    assert _native.initialize("normal", {}, 0, "t", np.arange(3), 0).shape == (3, 0)


def test_a_bad_initializer_is_one_line() -> None:
    keys = np.arange(3)
    with pytest.raises(ValueError, match="unknown initializer 'unifrom'; did you mean 'uniform'?"):
        _native.initialize("unifrom", {}, 0, "t", keys, 4)
    with pytest.raises(ValueError, match="initializer uniform: high is missing"):
        _native.initialize("uniform", {"low": 1}, 0, "t", keys, 4)
    with pytest.raises(TypeError, match="keys must be int64, got float64"):
        _native.initialize("normal", {}, 0, "t", np.ones(3), 4)  # type: ignore[arg-type]
