"""Small photographs: 3 x 32 x 32 pixels, in 10 or 100 classes; 50 000 for training, 10 000 for testing.

A sample is (3072 floats from 0 to 1, label). The originals are `cifar/cifar-10-binary.tar.gz` and
`cifar/cifar-100-binary.tar.gz`: the editions without pickles, which would run whatever is in them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleet.errors import UsageError
from fleet_paddle.dataset.images import BLOCK, blocks
from fleet_paddle.dataset.original_files import original

Sample = tuple[npt.NDArray[np.float32], int]
Reader = Callable[[], Iterator[Sample]]

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_LIT = 0.6


def train10(cycle: bool = False) -> Reader:
    """50 000 samples of 10 classes; with `cycle` over and over again."""
    return _reader(10, True, cycle)


def test10(cycle: bool = False) -> Reader:  # noqa: PT028 - no test of ours
    """10 000 samples of 10 classes."""
    return _reader(10, False, cycle)


def train100() -> Reader:
    """50 000 samples of 100 classes."""
    return _reader(100, True, False)


def test100() -> Reader:
    """10 000 samples of 100 classes."""
    return _reader(100, False, False)


def fetch() -> None:
    """Look for the originals; nothing is downloaded."""
    original("cifar", "cifar-10-binary.tar.gz", "cifar-100-binary.tar.gz")


def arrays(
    classes: int, is_train: bool, given: Path | None = None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """All images as bytes, [count, 3072], and their labels: of a file that is given, of the original, or made up."""
    paths = [given] if given is not None else original("cifar", f"cifar-{classes}-binary.tar.gz")
    made_up = blocks(2 + is_train, 50_000 if is_train else 10_000, classes, 3, _SIDE, _LIT)
    found = list(made_up if paths is None else _read(paths[0], classes, is_train))
    images = np.concatenate([images.reshape(len(images), _PIXELS) for images, _ in found])
    return images, np.concatenate([labels for _, labels in found])


def _reader(classes: int, is_train: bool, cycle: bool) -> Reader:
    def once() -> Iterator[Sample]:
        paths = original("cifar", f"cifar-{classes}-binary.tar.gz")
        count = 50_000 if is_train else 10_000
        made_up = blocks(2 + is_train, count, classes, 3, _SIDE, _LIT)
        found = made_up if paths is None else _read(paths[0], classes, is_train)
        for images, labels in found:
            rows = images.reshape(len(images), _PIXELS).astype(np.float32) / 255.0
            yield from zip(rows, labels.tolist(), strict=True)

    def samples() -> Iterator[Sample]:
        yield from once()
        while cycle:
            yield from once()

    return samples


def _read(path: Path, classes: int, is_train: bool) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
    """Rows of one label, or a coarse and a fine one, and the pixels."""
    marks = 1 if classes == 10 else 2
    wanted = ("data_batch", "train.bin") if is_train else ("test",)
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if Path(member.name).name.startswith(wanted) else None
            if file is None:
                continue
            rows = np.frombuffer(file.read(), np.uint8)
            if rows.size % (marks + _PIXELS):
                raise UsageError(f"{path}: {member.name} is cut short; put the original there")
            rows = rows.reshape(-1, marks + _PIXELS)
            for begin in range(0, len(rows), BLOCK):
                part = rows[begin : begin + BLOCK]
                yield part[:, marks:], part[:, marks - 1].astype(np.int64)
