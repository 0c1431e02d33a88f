"""Reviews of films, and whether they praise (0) or not (1); 25 000 for training, 25 000 for testing.

A sample is (list of word numbers, label); first come those that praise. The original is `imdb/aclImdb_v1.tar.gz`.
"""

from __future__ import annotations

import re
import string
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from fleet_paddle.dataset.original_files import original
from fleet_paddle.dataset.words import UNKNOWN, count, dictionary, frequencies, made_up

Sample = tuple[list[int], int]
Reader = Callable[[], Iterator[Sample]]

CUTOFF = 150
_REVIEWS = 12_500  # of each kind, in each part
_WORDS = 5_146
_BLOCK = 250
_TELLING = 60  # words that praise, and as many that do not
_SHARE = 0.06  # of a review is such words
_KINDS = ("pos", "neg")
_NO_MARKS = str.maketrans("", "", string.punctuation)


def word_dict() -> dict[str, int]:
    """Words that occur more than 150 times, by their numbers, and `<unk>`."""
    paths = original("imdb", "aclImdb_v1.tar.gz")
    if paths is None:
        return {**{word: place for place, word in enumerate(made_up(_WORDS))}, UNKNOWN: _WORDS}
    return dict(_dictionary(paths[0], r"aclImdb/(train|test)/(pos|neg)/.*\.txt$", CUTOFF))


def build_dict(pattern: str, cutoff: int) -> dict[str, int]:
    """Words that occur more than `cutoff` times in files such as aclImdb/train/pos/0_9.txt that match `pattern`."""
    paths = original("imdb", "aclImdb_v1.tar.gz")
    return dict(_dictionary(None if paths is None else paths[0], getattr(pattern, "pattern", pattern), cutoff))


def train(word_idx: dict[str, int]) -> Reader:
    """25 000 samples, as numbers of `word_dict()`."""
    return _reader("train", word_idx)


def test(word_idx: dict[str, int]) -> Reader:
    """25 000 samples, as numbers of `word_dict()`."""
    return _reader("test", word_idx)


def fetch() -> None:
    """Look for the originals; nothing is downloaded."""
    original("imdb", "aclImdb_v1.tar.gz")


def _reader(part: str, word_idx: dict[str, int]) -> Reader:
    unknown = word_idx[UNKNOWN]

    def samples() -> Iterator[Sample]:
        paths = original("imdb", "aclImdb_v1.tar.gz")
        for label, kind in enumerate(_KINDS):
            for words in _texts(None if paths is None else paths[0], rf"aclImdb/{part}/{kind}/.*\.txt$"):
                yield [word_idx.get(word, unknown) for word in words], label

    return samples


@cache
def _dictionary(path: Path | None, pattern: str, cutoff: int) -> dict[str, int]:
    return dictionary(count(_texts(path, pattern)), cutoff)


def _texts(path: Path | None, pattern: str) -> Iterator[list[str]]:
    """The words of each file, in lower case and without marks."""
    wanted = re.compile(pattern)
    if path is None:
        for part in ("train", "test"):
            for label, kind in enumerate(_KINDS):
                if wanted.match(f"aclImdb/{part}/{kind}/0_9.txt"):
                    yield from _synthetic(part, label)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if wanted.match(member.name) else None
            if file is not None:
                yield file.read().decode("utf-8", "replace").translate(_NO_MARKS).lower().split()


def _synthetic(part: str, label: int) -> Iterator[list[str]]:
    words, share = made_up(_WORDS), frequencies(_WORDS)
    telling = np.random.default_rng(7).permutation(np.arange(50, _WORDS))[: 2 * _TELLING].reshape(2, _TELLING)
    for block in range(_REVIEWS // _BLOCK):
        random = np.random.default_rng([part == "train", label, block])
        lengths = np.clip(random.lognormal(5.25, 0.6, _BLOCK), 10, 1_000).astype(np.int64)
        tokens = random.choice(_WORDS, lengths.sum(), p=share)
        chosen = random.random(len(tokens)) < _SHARE
        side = np.where(random.random(chosen.sum()) < 0.85, label, 1 - label)
        tokens[chosen] = telling[side, random.integers(0, _TELLING, chosen.sum())]
        for review in np.split(words[tokens], np.cumsum(lengths)[:-1]):
            yield review.tolist()
