"""Small archives of the form that `paddle.dataset` reads: the made-up datasets are as large as the originals.

They are written to `home/` in the folder that a script runs in; its line says FLEET_DATA_HOME = "{root}/.../home".
"""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from fleet_paddle.dataset.images import blocks

_SPOKEN = ["read", "the", "book", "forget", "movie", "this", "is", "a", "great", "very", "bad"]


def small_reviews(folder: Path) -> None:
    """IMDB: 1 320 reviews of 20 to 39 words, a third of which say what the reviewer thinks."""
    _reviews(folder, 660)


def few_reviews(folder: Path) -> None:
    """IMDB: 256 reviews."""
    _reviews(folder, 128)


def many_reviews(folder: Path) -> None:
    """IMDB: 15 600 reviews."""
    _reviews(folder, 7_800)


def _reviews(folder: Path, size: int) -> None:
    random = np.random.default_rng(1)
    words = np.array([*_SPOKEN, *(f"w{number}" for number in range(29))])
    texts = {}
    for part, count in (("train", size), ("test", 64)):
        for kind, telling in (("pos", words[20:30]), ("neg", words[30:40])):
            for number in range(count):
                length = int(random.integers(20, 40))
                told = random.random(length) < 0.33
                tokens = np.where(told, random.choice(telling, length), random.choice(words[:20], length))
                texts[f"aclImdb/{part}/{kind}/{number}_9.txt"] = " ".join(tokens)
    _tar(folder / "home/imdb/aclImdb_v1.tar.gz", texts)


def small_sentences(folder: Path) -> None:
    """PTB: 400 words, a few of which are half of all."""
    random = np.random.default_rng(2)
    share = np.repeat([0.5 / 20, 0.5 / 380], [20, 380])

    def text(count: int) -> str:
        rows = random.choice(400, (count, 20), p=share)
        return "".join(f" {' '.join(f'w{word}' for word in row)} \n" for row in rows.tolist())

    files = {f"./simple-examples/data/ptb.{part}.txt": text(count) for part, count in (("train", 2900), ("valid", 20))}
    _tar(folder / "home/imikolov/simple-examples.tgz", files)


def folder_for_images(folder: Path) -> None:
    """The folder that a script saves pictures to: repositories bring it along."""
    (folder / "image").mkdir(exist_ok=True)


def few_digits(folder: Path) -> None:
    """MNIST: 128 digits for training, for networks that are slow on a CPU."""
    folder_for_images(folder)
    _digits(folder, 128)


def small_digits(folder: Path) -> None:
    """MNIST: 512 digits for training, 128 for testing."""
    _digits(folder, 512)


def digits_and_a_picture(folder: Path) -> None:
    """MNIST: 2 048 digits for training, and the picture that repositories bring to be recognised."""
    folder_for_images(folder)
    _digits(folder, 2048)
    Image.fromarray(_pictures(0, 1, 1, 28)[0][0, 0]).save(folder / "image/infer_3.png")


def _digits(folder: Path, size: int) -> None:
    place = folder / "home/mnist"
    place.mkdir(parents=True, exist_ok=True)
    for number, (part, count) in enumerate((("t10k", 128), ("train", size))):
        images, labels = _pictures(number, count, 1, 28)
        head = struct.pack(">4i", 2051, count, 28, 28)
        (place / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + images.tobytes()))
        marks = labels.astype(np.uint8).tobytes()
        (place / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">2i", 2049, count) + marks))


def small_pictures(folder: Path) -> None:
    """CIFAR-10: 96 pictures for training, 32 for testing, of three kinds, which few steps can tell apart."""
    files = {}
    for number, (name, count) in enumerate((("test_batch.bin", 32), ("data_batch_1.bin", 96))):
        images, labels = _pictures(2 + number, 6 * count, 3, 32)
        images, labels = images[labels < 3][:count], labels[labels < 3][:count]
        rows = np.concatenate([labels.astype(np.uint8)[:, None], images.reshape(count, -1)], 1)
        files[f"cifar-10-batches-bin/{name}"] = rows.tobytes()
    _tar(folder / "home/cifar/cifar-10-binary.tar.gz", files)


def small_ratings(folder: Path) -> None:
    """MovieLens: 80 users, 60 films, 6 000 ratings, which follow the user's and the film's kind."""
    random = np.random.default_rng(3)
    kinds = ("Drama", "Comedy", "Action", "Crime")
    films = [f"{n}::Title w{n % 9} w{n % 7} ({1950 + n % 50})::{kinds[n % 4]}|{kinds[(n // 4) % 4]}" for n in _ids(60)]
    ages = (1, 18, 25, 35, 45, 50, 56)
    users = [f"{n}::{'MF'[n % 2]}::{ages[n % 7]}::{n % 21}::10000" for n in _ids(80)]
    ratings = []
    for _ in range(6000):
        user, film = int(random.integers(1, 81)), int(random.integers(1, 61))
        score = 3 + (1 if (user + film) % 2 else -1) + (film % 4 == user % 4)
        ratings.append(f"{user}::{film}::{min(5, max(1, score))}::0")
    path = folder / "home/movielens/ml-1m.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, lines in (("movies", films), ("users", users), ("ratings", ratings)):
            archive.writestr(f"ml-1m/{name}.dat", "".join(f"{line}\n" for line in lines))


def _ids(count: int) -> range:
    return range(1, count + 1)


def _pictures(part: int, count: int, channels: int, side: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    found = list(blocks(part, count, 10, channels, side, 0.3))
    return np.concatenate([images for images, _ in found]), np.concatenate([labels for _, labels in found])


def _tar(path: Path, files: Mapping[str, str | bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            body = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
