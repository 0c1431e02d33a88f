"""Sentences in English and German, one the translation of the other: 29 000 for training, 1 000 for testing.

A sample is (numbers of the source between `<s>` and `<e>`, those of the target after `<s>`, those before `<e>`). The
numbers 0, 1 and 2 are `<s>`, `<e>` and `<unk>`. The original is `wmt16/wmt16.tar.gz`.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from fleet.errors import UsageError
from fleet_paddle.dataset.original_files import original
from fleet_paddle.dataset.words import UNKNOWN, count, frequencies, made_up

Sample = tuple[list[int], list[int], list[int]]
Reader = Callable[[], Iterator[Sample]]
Pair = tuple[list[str], list[str]]

START_MARK, END_MARK = "<s>", "<e>"
_MARKS = (START_MARK, END_MARK, UNKNOWN)
_LANGUAGES = ("en", "de")
_PAIRS = {"train": 29_000, "test": 1_000, "val": 1_014}
_WORDS = 6_000
_BLOCK = 1_000


def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """29 000 samples; a dictionary has so many words, the most frequent ones."""
    return _reader("train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:  # noqa: PT028 - no test of ours
    """1 000 samples."""
    return _reader("test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """1 014 samples."""
    return _reader("val", src_dict_size, trg_dict_size, src_lang)


def get_dict(lang: str, dict_size: int, reverse: bool = False) -> dict[str, int] | dict[int, str]:
    """The numbers of the most frequent words of a language; with `reverse` the words of the numbers."""
    numbers = _dictionary(_path(), _language(lang), _size(dict_size))
    return {number: word for word, number in numbers.items()} if reverse else dict(numbers)


def fetch() -> None:
    """Look for the original; nothing is downloaded."""
    _path()


def _path() -> Path | None:
    paths = original("wmt16", "wmt16.tar.gz")
    return None if paths is None else paths[0]


def _language(lang: str) -> str:
    if lang not in _LANGUAGES:
        raise UsageError(f"wmt16: a language is one of {', '.join(_LANGUAGES)}, got {lang!r}")
    return lang


def _size(dict_size: int) -> int:
    if dict_size <= len(_MARKS):
        raise UsageError(f"wmt16: a dictionary must have more than {len(_MARKS)} words, got {dict_size}")
    return dict_size


def _reader(part: str, src_dict_size: int, trg_dict_size: int, src_lang: str) -> Reader:
    is_swapped = _language(src_lang) == "de"
    languages = _LANGUAGES[::-1] if is_swapped else _LANGUAGES
    sizes = _size(src_dict_size), _size(trg_dict_size)

    def samples() -> Iterator[Sample]:
        path = _path()
        source, target = (_dictionary(path, one, size) for one, size in zip(languages, sizes, strict=True))
        for pair in _pairs(path, part):
            of_source, of_target = pair[::-1] if is_swapped else pair
            given = [source.get(word, 2) for word in of_source]
            wanted = [target.get(word, 2) for word in of_target]
            yield [0, *given, 1], [0, *wanted], [*wanted, 1]

    return samples


@cache
def _dictionary(path: Path | None, lang: str, size: int) -> dict[str, int]:
    place = _LANGUAGES.index(lang)
    counts = count(pair[place] for pair in _pairs(path, "train"))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    if path is None:  # as large as it is asked for: a model that has not learned yet says words that never occur
        words += [f"{lang}{number}" for number in range(size - len(words))]
    return {word: number for number, word in enumerate([*_MARKS, *words[: size - len(_MARKS)]])}


def _pairs(path: Path | None, part: str) -> Iterator[Pair]:
    if path is None:
        yield from _synthetic(part)
        return
    with tarfile.open(path) as archive:
        file = archive.extractfile(f"wmt16/{part}")
        for line in file or ():
            sides = line.decode("utf-8", "replace").strip().split("\t")
            if len(sides) == 2:
                yield sides[0].split(), sides[1].split()


def _synthetic(part: str) -> Iterator[Pair]:
    """A word has one translation, and the last word of a sentence, its verb, comes second in the other language."""
    words, share = made_up(_WORDS), frequencies(_WORDS)
    meaning = np.random.default_rng(9).permutation(_WORDS)
    for block in range(-(-_PAIRS[part] // _BLOCK)):
        size = min(_BLOCK, _PAIRS[part] - block * _BLOCK)
        random = np.random.default_rng([len(part), block, 13])
        lengths = np.clip(random.normal(13, 4, size), 4, 40).astype(np.int64)
        for tokens in np.split(random.choice(_WORDS, lengths.sum(), p=share), np.cumsum(lengths)[:-1]):
            german = np.concatenate([tokens[:1], tokens[-1:], tokens[1:-1]])
            yield words[tokens].tolist(), [f"d{number}" for number in meaning[german].tolist()]
