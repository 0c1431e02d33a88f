"""Made-up images: a shape for each class, moved about, brighter or darker, with noise; in blocks, as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

BLOCK = 500
_MOVES = 2

Bytes = npt.NDArray[np.uint8]


@cache
def _shapes(classes: int, channels: int, side: int, lit: float) -> npt.NDArray[np.float32]:
    """For each class an image with soft edges, `lit` of it bright, and a rim to move it in."""
    random = np.random.default_rng([classes, channels, side])
    coarse = random.standard_normal((classes, channels, side // 4 + 2, side // 4 + 2))
    fine = np.kron(coarse, np.ones((1, 1, 4, 4)))[:, :, :side, :side]
    for axis in (2, 3):
        fine = (np.roll(fine, -1, axis) + fine + np.roll(fine, 1, axis)) / 3
    distance = np.abs(np.arange(side) - (side - 1) / 2)
    fine -= 6.0 * np.maximum(0, np.maximum.outer(distance, distance) / side - 0.36)
    level = np.quantile(fine, 1 - lit, axis=(2, 3), keepdims=True)
    shapes = 1 / (1 + np.exp(-8 * (fine - level)))
    rim = (_MOVES, _MOVES)
    return np.pad(shapes, ((0, 0), (0, 0), rim, rim), mode="edge").astype(np.float32)


def blocks(
    part: int, count: int, classes: int, channels: int, side: int, lit: float
) -> Iterator[tuple[Bytes, npt.NDArray[np.int64]]]:
    """Images as bytes [n, channels, side, side] and their labels; the same for the same arguments."""
    shapes = _shapes(classes, channels, side, lit)
    ahead = np.arange(side)
    for number in range(-(-count // BLOCK)):
        size = min(BLOCK, count - number * BLOCK)
        random = np.random.default_rng([part, number, classes, side])
        labels = random.integers(0, classes, size)
        down, right = random.integers(0, 2 * _MOVES + 1, (2, size, 1))
        moved = shapes[
            labels[:, None, None, None],
            np.arange(channels)[None, :, None, None],
            (ahead + down)[:, None, :, None],
            (ahead + right)[:, None, None, :],
        ]
        light = random.uniform(0.55, 1.0, (size, 1, 1, 1)).astype(np.float32)
        noise = random.standard_normal(moved.shape, np.float32) * 0.04
        yield np.clip((moved * light + noise * (moved > 0.02)) * 255, 0, 255).astype(np.uint8), labels
