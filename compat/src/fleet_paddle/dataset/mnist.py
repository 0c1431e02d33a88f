"""Handwritten digits: 28 x 28 pixels, and which digit it is; 60 000 for training, 10 000 for testing.

A sample is (784 floats from -1 to 1, label). The originals are the four files `mnist/*-ubyte.gz`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleet.errors import UsageError
from fleet_paddle.dataset.images import BLOCK, blocks
from fleet_paddle.dataset.original_files import original

Sample = tuple[npt.NDArray[np.float32], int]
Reader = Callable[[], Iterator[Sample]]

_SIDE = 28
_PIXELS = _SIDE * _SIDE
_LIT = 0.17  # of the pixels, as in the original


def train() -> Reader:
    """60 000 samples."""
    return _reader("train", 60_000)


def test() -> Reader:
    """10 000 samples."""
    return _reader("t10k", 10_000)


def fetch() -> None:
    """Look for the originals; nothing is downloaded."""
    original(
        "mnist", *(f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
    )


def arrays(
    folder: str, part: str, given: tuple[Path, Path] | None = None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """All images as bytes, [count, 784], and their labels: of the files given, of a folder of originals, or made up."""
    names = (f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz")
    paths = list(given) if given is not None else original(folder, *names)
    number = int(part == "train") + 2 * (folder != "mnist")
    made_up = blocks(number, 60_000 if part == "train" else 10_000, 10, 1, _SIDE, _LIT)
    found = list(made_up if paths is None else _read(*paths))
    images = np.concatenate([images.reshape(len(images), _PIXELS) for images, _ in found])
    return images, np.concatenate([labels for _, labels in found])


def _reader(part: str, count: int) -> Reader:
    def samples() -> Iterator[Sample]:
        paths = original("mnist", f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz")
        found = _read(*paths) if paths is not None else blocks(int(part == "train"), count, 10, 1, _SIDE, _LIT)
        for images, labels in found:
            rows = images.reshape(len(images), _PIXELS).astype(np.float32) / 127.5 - 1.0
            yield from zip(rows, labels.tolist(), strict=True)

    return samples


def _read(images: Path, labels: Path) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
    pixels = np.frombuffer(gzip.decompress(images.read_bytes()), np.uint8, offset=16)
    marks = np.frombuffer(gzip.decompress(labels.read_bytes()), np.uint8, offset=8)
    if pixels.size != marks.size * _PIXELS:
        raise UsageError(f"{images} and {labels} must hold as many images as labels; put the originals there")
    whole = pixels.reshape(-1, _PIXELS)
    for begin in range(0, len(marks), BLOCK):
        yield whole[begin : begin + BLOCK], marks[begin : begin + BLOCK].astype(np.int64)
