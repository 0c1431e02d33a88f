"""Sentences of a newspaper, for language models: some words, and the word after them.

With `DataType.NGRAM` a sample is `n` word numbers; with `DataType.SEQ` it is (numbers after `<s>`, numbers before
`<e>`) of a sentence of at most `n` words. The original is `imikolov/simple-examples.tgz`.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fleet.errors import UsageError
from fleet_paddle.dataset.original_files import original
from fleet_paddle.dataset.words import UNKNOWN, count, dictionary, frequencies, made_up

Reader = Callable[[], Iterator[Any]]

_FILES = {"train": "ptb.train.txt", "valid": "ptb.valid.txt"}
_SENTENCES = {"train": 42_068, "valid": 3_370}
_WORDS = 2_071
_FOLLOWERS = 6  # of each word, one of which comes next most of the time
_USUAL = 0.7
_BLOCK = 2_000


class DataType:
    """What a sample is."""

    NGRAM = 1
    SEQ = 2


def build_dict(min_word_freq: int = 50) -> dict[str, int]:
    """Words that occur more than `min_word_freq` times, by their numbers; among them `<s>`, `<e>` and `<unk>`."""
    paths = original("imikolov", "simple-examples.tgz")
    return dict(_dictionary(None if paths is None else paths[0], min_word_freq))


def train(word_idx: dict[str, int], n: int, data_type: int = DataType.NGRAM) -> Reader:
    """Samples of the sentences for training."""
    return _reader("train", word_idx, n, data_type)


def test(word_idx: dict[str, int], n: int, data_type: int = DataType.NGRAM) -> Reader:  # noqa: PT028 - no test of ours
    """Samples of the sentences for testing."""
    return _reader("valid", word_idx, n, data_type)


def fetch() -> None:
    """Look for the originals; nothing is downloaded."""
    original("imikolov", "simple-examples.tgz")


def _reader(part: str, word_idx: dict[str, int], n: int, data_type: int) -> Reader:
    if data_type not in (DataType.NGRAM, DataType.SEQ):
        raise UsageError(f"data_type must be DataType.NGRAM or DataType.SEQ, got {data_type!r}")
    if data_type == DataType.NGRAM and n < 1:
        raise UsageError(f"n must be >= 1 for DataType.NGRAM, got {n}")
    unknown, begin, end = (word_idx[word] for word in (UNKNOWN, "<s>", "<e>"))

    def samples() -> Iterator[Any]:
        paths = original("imikolov", "simple-examples.tgz")
        for words in _sentences(None if paths is None else paths[0], part):
            numbers = [word_idx.get(word, unknown) for word in words]
            if data_type == DataType.SEQ:
                if n <= 0 or len(numbers) < n:
                    yield [begin, *numbers], [*numbers, end]
                continue
            whole = [begin, *numbers, end]
            for place in range(n, len(whole) + 1):
                yield tuple(whole[place - n : place])

    return samples


@cache
def _dictionary(path: Path | None, min_word_freq: int) -> dict[str, int]:
    counts = count(words for part in _FILES for words in _sentences(path, part))
    counts.update({mark: sum(1 for part in _FILES for _ in _sentences(path, part)) for mark in ("<s>", "<e>")})
    return dictionary(counts, min_word_freq)


def _sentences(path: Path | None, part: str) -> Iterator[list[str]]:
    if path is None:
        yield from _synthetic(part)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(f"data/{_FILES[part]}") else None
            if file is not None:
                for line in file:
                    yield line.decode("utf-8", "replace").split()


def _synthetic(part: str) -> Iterator[list[str]]:
    """Each word is mostly one of the few that like to follow the word before."""
    words, share = made_up(_WORDS), frequencies(_WORDS)
    likes = np.random.default_rng(3).permuted(np.tile(np.arange(_WORDS), (_FOLLOWERS, 1)), axis=1).T
    for block in range(-(-_SENTENCES[part] // _BLOCK)):
        size = min(_BLOCK, _SENTENCES[part] - block * _BLOCK)
        random = np.random.default_rng([part == "train", block, 11])
        lengths = np.clip(random.normal(21, 10, size), 2, 60).astype(np.int64)
        free = random.choice(_WORDS, (size, lengths.max()), p=share)
        is_usual = random.random(free.shape) < _USUAL
        follower = random.integers(0, _FOLLOWERS, free.shape)
        for place in range(1, free.shape[1]):
            usual = likes[free[:, place - 1], follower[:, place]]
            free[:, place] = np.where(is_usual[:, place], usual, free[:, place])
        for sentence, length in zip(words[free], lengths, strict=True):
            yield sentence[:length].tolist()
