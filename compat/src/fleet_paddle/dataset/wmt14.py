"""Sentences in English and French, one the translation of the other, of at most 80 words.

A sample is (numbers of the source between `<s>` and `<e>`, those of the target after `<s>`, those before `<e>`). The
numbers 0, 1 and 2 are `<s>`, `<e>` and `<unk>`. The original is `wmt14/wmt14.tgz`, which has its dictionaries in it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from fleet.errors import UsageError
from fleet_paddle.dataset.original_files import original
from fleet_paddle.dataset.words import UNKNOWN, frequencies, made_up

Sample = tuple[list[int], list[int], list[int]]
Reader = Callable[[], Iterator[Sample]]
Pair = tuple[list[str], list[str]]

START, END, UNK = "<s>", "<e>", UNKNOWN
_MARKS = (START, END, UNK)
_PAIRS = {"train": 20_000, "test": 3_000, "gen": 500}
_WORDS, _BLOCK, _LONGEST = 30_000, 1_000, 80


def train(dict_size: int) -> Reader:
    """Samples for training; a dictionary has so many words, the most frequent ones."""
    return _reader("train", dict_size)


def test(dict_size: int) -> Reader:
    """Samples for testing."""
    return _reader("test", dict_size)


def gen(dict_size: int) -> Reader:
    """Samples to translate."""
    return _reader("gen", dict_size)


def get_dict(
    dict_size: int, reverse: bool = True
) -> tuple[dict[int, str], dict[int, str]] | tuple[dict[str, int], ...]:
    """The words of the numbers, of English and of French; without `reverse` the numbers of the words."""
    source, target = _dictionaries(_path(), dict_size)
    if not reverse:
        return dict(source), dict(target)
    return {number: word for word, number in source.items()}, {number: word for word, number in target.items()}


def fetch() -> None:
    """Look for the original; nothing is downloaded."""
    _path()


def _path() -> Path | None:
    paths = original("wmt14", "wmt14.tgz")
    return None if paths is None else paths[0]


def _reader(part: str, dict_size: int) -> Reader:
    if dict_size <= len(_MARKS):
        raise UsageError(f"wmt14: a dictionary must have more than {len(_MARKS)} words, got {dict_size}")

    def samples() -> Iterator[Sample]:
        path = _path()
        source, target = _dictionaries(path, dict_size)
        for of_source, of_target in _synthetic(part) if path is None else _read(path, part):
            given = [0, *(source.get(word, 2) for word in of_source), 1]
            wanted = [target.get(word, 2) for word in of_target]
            if len(given) <= _LONGEST and len(wanted) <= _LONGEST:
                yield given, [0, *wanted], [*wanted, 1]

    return samples


@cache
def _dictionaries(path: Path | None, size: int) -> tuple[dict[str, int], dict[str, int]]:
    if path is None:
        kept = range(min(size, _WORDS) - len(_MARKS))
        words = made_up(_WORDS)
        translations = _meaning()
        sides = ([words[one] for one in kept], [f"f{translations[one]}" for one in kept])
        return tuple({word: number for number, word in enumerate([*_MARKS, *side])} for side in sides)  # type: ignore[return-value]
    with tarfile.open(path) as archive:
        return _listed(archive, "src.dict", size), _listed(archive, "trg.dict", size)


def _listed(archive: tarfile.TarFile, ending: str, size: int) -> dict[str, int]:
    for member in archive:
        file = archive.extractfile(member) if member.name.endswith(ending) else None
        if file is not None:
            lines = (line.decode("utf-8", "replace").strip() for line in file)
            return {word: number for number, word in zip(range(size), lines, strict=False)}
    raise UsageError(f"wmt14: {archive.name!s} has no {ending}; put the original there")


def _read(path: Path, part: str) -> Iterator[Pair]:
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(f"{part}/{part}") else None
            for line in file or ():
                sides = line.decode("utf-8", "replace").strip().split("\t")
                if len(sides) == 2:
                    yield sides[0].split(), sides[1].split()


@cache
def _meaning() -> list[int]:
    return np.random.default_rng(14).permutation(_WORDS).tolist()  # type: ignore[no-any-return]


def _synthetic(part: str) -> Iterator[Pair]:
    """A word has one translation, and two neighbours of the middle change places."""
    words, share, translations = made_up(_WORDS), frequencies(_WORDS), np.array(_meaning())
    for block in range(-(-_PAIRS[part] // _BLOCK)):
        size = min(_BLOCK, _PAIRS[part] - block * _BLOCK)
        random = np.random.default_rng([len(part), block, 14])
        lengths = np.clip(random.normal(20, 7, size), 4, 60).astype(np.int64)
        for tokens in np.split(random.choice(_WORDS, lengths.sum(), p=share), np.cumsum(lengths)[:-1]):
            french = tokens.copy()
            middle = len(tokens) // 2
            french[[middle - 1, middle]] = french[[middle, middle - 1]]
            yield words[tokens].tolist(), [f"f{number}" for number in translations[french].tolist()]
