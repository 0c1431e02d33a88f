"""The core's compression against numpy, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fleet import _native

N, K = 1000, 10


def floats(seed: int, n: int = N) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def arguments() -> dict[str, Any]:
    return {
        "grad": floats(0),
        "weight": floats(1),
        "momentum": floats(2),
        "sum": floats(3),
        "index": np.full(K, -1, np.int32),
        "value": np.zeros(K, np.float32),
        "scale": 0.5,
        "decay": 0.01,
        "mu": 0.9,
        "nesterov": False,
        "seed": 0,
    }


@pytest.mark.parametrize("nesterov", [False, True])
def test_it_equals_numpy(nesterov: bool) -> None:
    given, got = arguments(), arguments()
    got["nesterov"] = nesterov
    assert _native.compress(**got) == K
    mu = np.float32(0.9)
    change = np.float32(0.5) * given["grad"] + np.float32(0.01) * given["weight"]
    momentum = mu * given["momentum"] + change
    total = given["sum"] + (change + mu * momentum if nesterov else momentum)
    chosen = np.sort(np.argsort(-np.abs(total), kind="stable")[:K])
    np.testing.assert_array_equal(got["index"], chosen)
    np.testing.assert_array_equal(got["value"], total[chosen])
    momentum[chosen] = total[chosen] = 0
    np.testing.assert_array_equal(got["momentum"], momentum)
    np.testing.assert_array_equal(got["sum"], total)
    assert not got["grad"].any()


def test_nothing_to_send() -> None:
    zeros = {name: np.zeros(N, np.float32) for name in ("grad", "momentum", "sum")}
    assert _native.compress(**{**arguments(), **zeros, "weight": None, "decay": 0.0}) == 0
    none: Any = {name: np.zeros(0, np.float32) for name in ("grad", "weight", "momentum", "sum")}
    assert _native.compress(**{**arguments(), **none}) == 0


def read_only() -> npt.NDArray[np.float32]:
    array = floats(3)
    array.flags.writeable = False
    return array


SHARED = floats(5)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"grad": floats(0).astype(np.float64)}, TypeError, "grad must be float32, got float64"),
        ({"grad": [1.0]}, TypeError, "grad must be a numpy array or a CPU tensor, got list"),
        ({"momentum": floats(0, 999)}, ValueError, "momentum must have 1000 elements, got 999"),
        ({"sum": floats(0, 2 * N)[::2]}, ValueError, "sum must be contiguous"),
        ({"sum": read_only()}, ValueError, "sum must be writable"),
        ({"index": np.zeros(K, np.int64)}, TypeError, "index must be int32, got int64"),
        ({"index": np.zeros((K, 1), np.int32)}, ValueError, "index must have 1 dimension, got 2"),
        ({"value": floats(0, 9)}, ValueError, "value must have 10 elements, got 9"),
        ({"weight": None}, ValueError, "weight must not be None where decay is not 0"),
        ({"sum": SHARED, "momentum": SHARED}, ValueError, "must not share memory"),
        ({"weight": SHARED, "momentum": SHARED}, ValueError, "must not share memory"),
        ({"scale": float("nan")}, ValueError, "scale must be finite, got nan"),
        ({"mu": "0.9"}, TypeError, "mu must be a number, got str"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        _native.compress(**{**arguments(), **changes})
    assert "\n" not in str(caught.value)
