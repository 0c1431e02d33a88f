"""Advertisements, and whether they were clicked: 13 counts and 26 categories.

A sample is (13 floats, [id], ..., 26 of them, [label]), the order in which CTR models declare their inputs. Counts are
divided by their usual range; a category's id is a hash below `hash_dim`. The original is `criteo/train.txt`, tab
separated; every tenth line of it is for testing. Made-up samples are 200 000 for training, 20 000 for testing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.errors import UsageError
from fleet_paddle.dataset.original_files import original

Sample = tuple[Any, ...]
Reader = Callable[[], Iterator[Sample]]

COUNTS, CATEGORIES = 13, 26
HASH_DIM = 1_000_001

_LEAST = np.array([0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], np.float32)
_RANGE = np.array([20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50], np.float32)
_SAMPLES = {"train": 200_000, "test": 20_000}
_BLOCK = 2_000
_CLICKED = -1.45  # where the log-odds of a click lie: about a quarter of all


def train(hash_dim: int = HASH_DIM) -> Reader:
    """The samples for training."""
    return _reader("train", hash_dim)


def test(hash_dim: int = HASH_DIM) -> Reader:  # noqa: PT028 - no test of ours
    """The samples for testing."""
    return _reader("test", hash_dim)


def _reader(part: str, hash_dim: int) -> Reader:
    if hash_dim < 1:
        raise UsageError(f"hash_dim must be >= 1, got {hash_dim}")

    def samples() -> Iterator[Sample]:
        paths = original("criteo", "train.txt")
        for counts, ids, labels in _made_up(part, hash_dim) if paths is None else _read(paths[0], part, hash_dim):
            dense = (counts - _LEAST) / _RANGE
            for row, numbers, label in zip(dense, ids.tolist(), labels.tolist(), strict=True):
                yield (row, *([number] for number in numbers), [label])

    return samples


Block = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _read(path: Path, part: str, hash_dim: int) -> Iterator[Block]:
    with path.open() as file:
        for number, line in enumerate(file):
            if (number % 10 == 9) != (part == "test"):
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 1 + COUNTS + CATEGORIES:
                raise UsageError(f"{path}, line {number + 1} must have 40 fields, got {len(fields)}")
            counts = [float(field) if field else low for field, low in zip(fields[1:14], _LEAST.tolist(), strict=True)]
            ids = [zlib.crc32(f"{place}{text}".encode()) % hash_dim for place, text in enumerate(fields[14:])]
            yield np.array([counts], np.float32), np.array([ids]), np.array([int(fields[0])])


def _made_up(part: str, hash_dim: int) -> Iterator[Block]:
    """Categories of very different sizes, some of whose values are clicked more; counts that say a little."""
    shape = np.random.default_rng(9)
    sizes = np.rint(np.exp(shape.uniform(1.2, 11.0, CATEGORIES))).astype(np.int64)
    says = shape.normal(0, 0.35, COUNTS)
    for block in range(_SAMPLES[part] // _BLOCK):
        random = np.random.default_rng([part == "train", block, 13])
        counts = np.floor(random.exponential(0.12, (_BLOCK, COUNTS)) * _RANGE)
        places = (sizes * random.random((_BLOCK, CATEGORIES)) ** 3).astype(np.int64)
        liked = np.sin(places * 12.9898 + np.arange(CATEGORIES) * 78.233)
        odds = _CLICKED + liked.sum(1) * 0.28 + (np.minimum(counts / _RANGE, 1) - 0.12) @ says
        labels = (random.random(_BLOCK) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        ids = (places * 2_654_435_761 + np.arange(CATEGORIES) * 40_503) % hash_dim
        yield (counts + _LEAST).astype(np.float32), ids, labels
