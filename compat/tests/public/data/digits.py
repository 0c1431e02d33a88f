"""MNIST's four files with a few images in them: shapes instead of digits, a shape for each class."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

TRAIN, TEST = 1_280, 128


def digits_beside(folder: Path) -> None:
    """`mnist/*-ubyte.gz` below the folder of a script, which is where FLEET_DATA_HOME points as well."""
    shapes = np.random.default_rng(1).random((10, 7, 7)) > 0.6
    large = np.kron(shapes, np.ones((1, 4, 4)))
    for part, count in (("train", TRAIN), ("t10k", TEST)):
        random = np.random.default_rng(count)
        labels = random.integers(0, 10, count).astype(np.uint8)
        pixels = large[labels] * random.uniform(120, 255, (count, 1, 1)) + random.uniform(0, 20, (count, 28, 28))
        heads = (np.array([2051, count, 28, 28], ">i4").tobytes(), np.array([2049, count], ">i4").tobytes())
        place = folder / "mnist"
        place.mkdir(parents=True, exist_ok=True)
        with gzip.open(place / f"{part}-images-idx3-ubyte.gz", "wb", 1) as file:
            file.write(heads[0] + np.clip(pixels, 0, 255).astype(np.uint8).tobytes())
        with gzip.open(place / f"{part}-labels-idx1-ubyte.gz", "wb", 1) as file:
            file.write(heads[1] + labels.tobytes())
