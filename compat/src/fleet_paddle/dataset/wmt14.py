"""Sentences in English and French, one the translation of the other: 191 155 for training, 5 957 for testing.

A sample is (numbers of the source between `<s>` and `<e>`, those of the target after `<s>`, those before `<e>`). The
numbers 0, 1 and 2 are `<s>`, `<e>` and `<unk>`. The original is `wmt14/wmt14.tgz`, which brings its dictionaries;
sentences of more than 80 words are left out.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from fleet.errors import UsageError
from fleet_paddle.dataset.original_files import original
from fleet_paddle.dataset.pairs import WORDS, Pair, made_up_pairs
from fleet_paddle.dataset.words import UNKNOWN, made_up

Sample = tuple[list[int], list[int], list[int]]
Reader = Callable[[], Iterator[Sample]]

START, END, UNK = "<s>", "<e>", UNKNOWN
UNK_IDX = 2
_PAIRS = {"train": 191_155, "test": 5_957, "gen": 3}
_LONGEST = 80


def train(dict_size: int) -> Reader:
    """191 155 samples; a dictionary has so many words, the most frequent ones."""
    return _reader("train", dict_size)


def test(dict_size: int) -> Reader:
    """5 957 samples."""
    return _reader("test", dict_size)


def gen(dict_size: int) -> Reader:
    """A few samples to show translations of."""
    return _reader("gen", dict_size)


def get_dict(dict_size: int, reverse: bool = True) -> tuple[dict[int, str], ...] | tuple[dict[str, int], ...]:
    """(of the source, of the target): the words of numbers, or without `reverse` the numbers of words."""
    both = _dictionaries(_path(), _size(dict_size))
    return tuple({number: word for word, number in one.items()} for one in both) if reverse else tuple(map(dict, both))


def fetch() -> None:
    """Look for the original; nothing is downloaded."""
    _path()


def _path() -> Path | None:
    paths = original("wmt14", "wmt14.tgz")
    return None if paths is None else paths[0]


def _size(dict_size: int) -> int:
    if dict_size <= UNK_IDX:
        raise UsageError(f"wmt14: a dictionary must have more than {UNK_IDX} words, got {dict_size}")
    return dict_size


def _reader(part: str, dict_size: int) -> Reader:
    size = _size(dict_size)

    def samples() -> Iterator[Sample]:
        path = _path()
        source, target = _dictionaries(path, size)
        for of_source, of_target in made_up_pairs(part, _PAIRS[part]) if path is None else _pairs(path, part):
            given = [source.get(word, UNK_IDX) for word in (START, *of_source, END)]
            wanted = [target.get(word, UNK_IDX) for word in of_target]
            if max(len(given), len(wanted)) <= _LONGEST:
                yield given, [target[START], *wanted], [*wanted, target[END]]

    return samples


@cache
def _dictionaries(path: Path | None, size: int) -> tuple[dict[str, int], dict[str, int]]:
    if path is None:
        marks = [START, END, UNK]
        several = [[*marks, *made_up(WORDS)], [*marks, *(f"d{number}" for number in range(WORDS))]]
    else:
        several = [_lines(path, f"{name}.dict") for name in ("src", "trg")]
    first, second = ({word: number for number, word in enumerate(words[:size])} for words in several)
    return first, second


def _pairs(path: Path, part: str) -> Iterator[Pair]:
    for line in _lines(path, f"{part}/{part}"):
        sides = line.split("\t")
        if len(sides) == 2:
            yield sides[0].split(), sides[1].split()


def _lines(path: Path, ending: str) -> list[str]:
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(ending) else None
            if file is not None:
                return [line.decode("utf-8", "replace").strip() for line in file]
    raise UsageError(f"{path} has no file that ends with {ending}; put the original there")
