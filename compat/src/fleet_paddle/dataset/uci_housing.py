"""Prices of houses near Boston: 13 facts about a neighbourhood, and the median price there in thousands.

A sample is (13 floats, 1 float). Facts are normalised: `(value - mean) / (maximum - minimum)`; prices are as they are.
404 samples are for training, 102 for testing. The original is `uci_housing/housing.data`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.errors import UsageError
from fleet_paddle.dataset.original_files import original

Rows = npt.NDArray[np.float32]
Sample = tuple[Rows, Rows]
Reader = Callable[[], Iterator[Sample]]

NUM_ROWS = 506
TRAIN_RATIO = 0.8

# For each fact its least, greatest and mean value, standard deviation, and correlation with the price.
_FACTS = {
    "CRIM": (0.006, 88.976, 3.614, 8.602, -0.388),
    "ZN": (0.0, 100.0, 11.364, 23.322, 0.360),
    "INDUS": (0.46, 27.74, 11.137, 6.860, -0.484),
    "CHAS": (0.0, 1.0, 0.069, 0.254, 0.175),
    "NOX": (0.385, 0.871, 0.555, 0.116, -0.427),
    "RM": (3.561, 8.780, 6.285, 0.703, 0.695),
    "AGE": (2.9, 100.0, 68.575, 28.149, -0.377),
    "DIS": (1.130, 12.127, 3.795, 2.106, 0.250),
    "RAD": (1.0, 24.0, 9.549, 8.707, -0.382),
    "TAX": (187.0, 711.0, 408.237, 168.537, -0.469),
    "PTRATIO": (12.6, 22.0, 18.456, 2.165, -0.508),
    "B": (0.32, 396.9, 356.674, 91.295, 0.333),
    "LSTAT": (1.73, 37.97, 12.653, 7.141, -0.738),
}
_PRICE_MEAN, _PRICE_DEVIATION, _PRICE_RANGE = 22.533, 9.197, (5.0, 50.0)
_TOGETHER = 1.6
_NOISE = 1.5

feature_names = list(_FACTS)


def train() -> Reader:
    """The first four fifths of the rows."""
    return _reader(slice(0, int(NUM_ROWS * TRAIN_RATIO)))


def test() -> Reader:
    """The last fifth of the rows."""
    return _reader(slice(int(NUM_ROWS * TRAIN_RATIO), None))


def feature_range() -> dict[str, tuple[float, float]]:
    """The least and the greatest value of each fact, before normalisation."""
    rows = _rows()
    return {
        name: (float(low), float(high))
        for name, low, high in zip(feature_names, rows[:, :-1].min(0), rows[:, :-1].max(0), strict=True)
    }


def _reader(part: slice) -> Reader:
    def samples() -> Iterator[Sample]:
        for row in _normalised(_rows())[part]:
            yield row[:-1], row[-1:]

    return samples


def _rows() -> npt.NDArray[np.float64]:
    """All rows as they are in the file, the price last."""
    paths = original("uci_housing", "housing.data")
    return _synthetic() if paths is None else _read(paths[0])


def _read(path: Path) -> npt.NDArray[np.float64]:
    values = np.array(path.read_text().split())
    try:
        return values.astype(np.float64).reshape(NUM_ROWS, len(feature_names) + 1)
    except ValueError:
        raise UsageError(
            f"{path} must hold {NUM_ROWS} rows of {len(feature_names) + 1} numbers; fetch it anew"
        ) from None


def _normalised(rows: npt.NDArray[Any]) -> Rows:
    facts = rows[:, :-1]
    span = facts.max(0) - facts.min(0)
    return np.concatenate([(facts - facts.mean(0)) / span, rows[:, -1:]], 1).astype(np.float32)


@cache
def _synthetic() -> npt.NDArray[np.float64]:
    """Facts that follow how good a neighbourhood is, more or less, and prices that are linear in them, plus noise."""
    random = np.random.default_rng(506)
    low, high, mean, deviation, correlation = np.array(list(_FACTS.values())).T
    follows = np.clip(correlation * _TOGETHER, -0.95, 0.95)
    quality = random.standard_normal((NUM_ROWS, 1))
    own = random.standard_normal((NUM_ROWS, len(_FACTS)))
    facts = np.clip(mean + deviation * (follows * quality + np.sqrt(1 - follows**2) * own), low, high)
    normalised = _normalised(np.concatenate([facts, quality], 1))[:, :-1]
    worth = normalised @ (follows * (deviation / (high - low)))
    worth = (worth - worth.mean()) / worth.std()
    noise = _NOISE * random.standard_normal(NUM_ROWS)
    prices = np.clip(_PRICE_MEAN + np.sqrt(_PRICE_DEVIATION**2 - _NOISE**2) * worth + noise, *_PRICE_RANGE)
    return np.concatenate([facts, prices[:, None]], 1)
