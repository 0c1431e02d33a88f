"""Pictures of flowers of 102 kinds: 6 149 for training, 1 020 for testing, 1 020 for validation.

A sample is (3 * 224 * 224 floats, the mean of each colour taken away, label from 0). The originals are in `flowers/`:
102flowers.tgz, imagelabels.mat and setid.mat; reading them takes the packages Pillow and SciPy.
"""

from __future__ import annotations

import importlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet_paddle.batches.reader import map_readers, xmap_readers
from fleet_paddle.dataset.images import blocks
from fleet_paddle.dataset.original_files import original

Picture = npt.NDArray[np.float32]
Sample = tuple[Picture, int]
Reader = Callable[[], Iterator[Any]]
Mapper = Callable[[Any], Any]

_FILES = ("102flowers.tgz", "imagelabels.mat", "setid.mat")
_PARTS = {"train": ("tstid", 6_149), "test": ("trnid", 1_020), "valid": ("valid", 1_020)}
_KINDS, _SIDE, _LARGER, _COARSE = 102, 224, 256, 32
_MEANS = np.array([103.94, 116.78, 123.68], np.float32).reshape(3, 1, 1)  # of blue, green and red
_THREADS = 4


def train_mapper(sample: tuple[bytes, int]) -> Sample:
    """A file's bytes as a picture: some part of it, mirrored or not."""
    return _picture(sample[0], is_train=True), sample[1]


def test_mapper(sample: tuple[bytes, int]) -> Sample:
    """A file's bytes as a picture: the middle of it."""
    return _picture(sample[0], is_train=False), sample[1]


def train(
    mapper: Mapper = train_mapper, buffered_size: int = 1024, use_xmap: bool = True, cycle: bool = False
) -> Reader:
    """6 149 samples, made of (bytes of a file, label) by `mapper`, in threads with `use_xmap`; endless with `cycle`."""
    return _reader("train", mapper, buffered_size, use_xmap, cycle)


def test(
    mapper: Mapper = test_mapper,  # noqa: PT028 - no test of ours
    buffered_size: int = 1024,  # noqa: PT028
    use_xmap: bool = True,  # noqa: PT028
    cycle: bool = False,  # noqa: PT028
) -> Reader:
    """1 020 samples."""
    return _reader("test", mapper, buffered_size, use_xmap, cycle)


def valid(mapper: Mapper = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Reader:
    """1 020 samples."""
    return _reader("valid", mapper, buffered_size, use_xmap, False)


def fetch() -> None:
    """Look for the originals; nothing is downloaded."""
    original("flowers", *_FILES)


def _reader(part: str, mapper: Mapper, buffered_size: int, use_xmap: bool, cycle: bool) -> Reader:
    def files() -> Iterator[tuple[bytes, int]]:
        paths = original("flowers", *_FILES)
        while True:
            yield from _made_up(part) if paths is None else _read(paths, part)
            if not cycle:
                return

    mapped = xmap_readers(mapper, files, _THREADS, buffered_size) if use_xmap else map_readers(mapper, files)
    return lambda: iter(mapped())


def _made_up(part: str) -> Iterator[tuple[bytes, int]]:
    """Small pictures in the simplest of formats, which `_picture` knows; mappers of scripts want files of JPEG."""
    for images, labels in blocks(list(_PARTS).index(part) + 4, _PARTS[part][1], _KINDS, 3, _COARSE, 0.4):
        for image, label in zip(images, labels.tolist(), strict=True):
            yield b"P6 %d %d 255\n" % (_COARSE, _COARSE) + image.transpose(1, 2, 0).tobytes(), label


def _read(paths: list[Path], part: str) -> Iterator[tuple[bytes, int]]:
    loadmat = importlib.import_module("scipy.io").loadmat
    chosen = set(loadmat(paths[2])[_PARTS[part][0]][0].tolist())
    labels = loadmat(paths[1])["labels"][0].tolist()
    with tarfile.open(paths[0]) as archive:
        for member in archive:
            number = Path(member.name).stem.removeprefix("image_")
            if number.isdigit() and int(number) in chosen:
                file = archive.extractfile(member)
                if file is not None:
                    yield file.read(), int(labels[int(number) - 1]) - 1


def _picture(data: bytes, is_train: bool) -> Picture:
    pixels = _decoded(data)
    height, width = pixels.shape[1:]
    if is_train:
        top, left = np.random.randint(0, height - _SIDE + 1), np.random.randint(0, width - _SIDE + 1)
        step = 1 if np.random.randint(2) else -1
    else:
        top, left, step = (height - _SIDE) // 2, (width - _SIDE) // 2, 1
    part = pixels[:, top : top + _SIDE, left : left + _SIDE][:, :, ::step]
    return np.ascontiguousarray(part - _MEANS).reshape(-1)


def _decoded(data: bytes) -> Picture:
    """[blue, green, red] of a picture whose shorter side is 256."""
    if data.startswith(b"P6"):
        small = np.frombuffer(data, np.uint8, offset=data.index(b"\n") + 1).reshape(_COARSE, _COARSE, 3)
        pixels = small.repeat(_LARGER // _COARSE, 0).repeat(_LARGER // _COARSE, 1)
    else:
        image = importlib.import_module("PIL.Image").open(io.BytesIO(data)).convert("RGB")
        scale = _LARGER / min(image.size)
        sizes = [max(_LARGER, round(size * scale)) for size in image.size]
        pixels = np.asarray(image.resize((sizes[0], sizes[1])))
    return pixels[:, :, ::-1].transpose(2, 0, 1).astype(np.float32)
