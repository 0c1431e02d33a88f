"""Sentences whose words have roles beside a verb: who does what to whom. The test set alone, as it is the free part.

A sample is nine lists as long as the sentence: its words, the words two and one before the verb, the verb, those one
and two after it (each the same for the whole sentence), the verb as a predicate, whether a word is within two of it,
and the roles as numbers of BIO marks. The originals are in `conll05st/`: conll05st-tests.tar.gz, wordDict.txt,
verbDict.txt, targetDict.txt and emb.
"""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from fleet_paddle.dataset.original_files import folder, original
from fleet_paddle.dataset.words import frequencies, made_up

Reader = Callable[[], Iterator[tuple[list[int], ...]]]
Sentence = tuple[list[str], str, list[str]]
"""Words, the verb's basic form, and the BIO mark of each word."""

_FILES = ("conll05st-tests.tar.gz", "wordDict.txt", "verbDict.txt", "targetDict.txt")
_WORDS, _VERBS, _SENTENCES, _BLOCK = 44_068, 3_162, 5_267, 500
_WIDTH = 32
_ROLES = (
    *("A0", "A1", "A2", "A3", "A4", "A5", "AA", "AM-ADV", "AM-CAU", "AM-DIR", "AM-DIS", "AM-EXT", "AM-LOC", "AM-MNR"),
    *("AM-MOD", "AM-NEG", "AM-PNC", "AM-PRD", "AM-REC", "AM-TMP", "C-A0", "C-A1", "C-A2", "C-V", "R-A0", "R-A1"),
    *("R-A2", "R-AM-LOC"),
)
_UNKNOWN = 0
_PARTS = ("words", "props")


def get_dict() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """The numbers of words, verbs and marks."""
    return tuple(dict(one) for one in _dictionaries(_folder()))  # type: ignore[return-value]


def get_embedding() -> str:
    """The path of a table of word vectors: 16 bytes that scripts pass over, then 32 floats for each word."""
    paths = original("conll05st", "emb")
    return str(_made_up_vectors() if paths is None else paths[0])


def test() -> Reader:
    """5 267 samples."""

    def samples() -> Iterator[tuple[list[int], ...]]:
        place = _folder()
        words, verbs, marks = _dictionaries(place)
        for sentence, verb, roles in _synthetic() if place is None else _read(place):
            at = roles.index("B-V")
            padded = ["bos", "bos", *sentence, "eos", "eos"]
            around = padded[at : at + 5]
            yield (
                [words.get(word, _UNKNOWN) for word in sentence],
                *([words.get(word, _UNKNOWN)] * len(sentence) for word in around),
                [verbs.get(verb, _UNKNOWN)] * len(sentence),
                [int(abs(index - at) <= 2) for index in range(len(sentence))],
                [marks.get(role, marks["O"]) for role in roles],
            )

    return samples


def fetch() -> None:
    """Look for the originals; nothing is downloaded."""
    _folder()


def _made_up_vectors() -> Path:
    """A file beside the originals, written once: vectors without a meaning, as those of words never seen are."""
    path = folder("conll05st") / "made_up_emb"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        vectors = np.random.default_rng(19).normal(0, 0.1, (_WORDS, _WIDTH)).astype(np.float32)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(bytes(16) + vectors.tobytes())
        Path(file.name).rename(path)
    return path


def _folder() -> Path | None:
    paths = original("conll05st", *_FILES)
    return None if paths is None else paths[0].parent


@cache
def _dictionaries(place: Path | None) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    if place is None:
        words = ["<unk>", "bos", "eos", *made_up(_WORDS - 3)]
        verbs = ["<unk>", *(f"v{number}" for number in range(_VERBS - 1))]
        roles: list[str] = ["V", *_ROLES]
    else:
        words, verbs, targets = ((place / name).read_text("utf-8").split() for name in _FILES[1:])
        roles = sorted({target.partition("-")[2] for target in targets if target.startswith(("B-", "I-"))})
    marks = [f"{mark}-{role}" for role in roles for mark in "BI"]
    return tuple({one: number for number, one in enumerate(names)} for names in (words, verbs, [*marks, "O"]))  # type: ignore[return-value]


def _read(place: Path) -> Iterator[Sentence]:
    with tarfile.open(place / _FILES[0]) as archive:
        texts = [archive.extractfile(f"conll05st-release/test.wsj/{part}/test.wsj.{part}.gz") for part in _PARTS]
        words, props = (gzip.decompress(text.read()).decode().splitlines() for text in texts if text is not None)
    sentence: list[str] = []
    rows: list[list[str]] = []
    for word, prop in zip([*words, ""], [*props, ""], strict=True):
        if word.strip():
            sentence.append(word.strip())
            rows.append(prop.split())
            continue
        verbs = [row[0] for row in rows if row[0] != "-"]
        for column, verb in enumerate(verbs, 1):
            yield sentence, verb, _bio([row[column] for row in rows])
        sentence, rows = [], []


def _bio(brackets: list[str]) -> list[str]:
    """Brackets such as (A0* * *) as B-A0, I-A0, I-A0."""
    found, role = [], ""
    for mark in brackets:
        if mark.startswith("("):
            role = mark[1 : mark.index("*")]
            found.append(f"B-{role}")
        else:
            found.append(f"I-{role}" if role else "O")
        if mark.endswith(")"):
            role = ""
    return found


def _synthetic() -> Iterator[Sentence]:
    """The role of a word depends on the word, on its side of the verb and on the verb."""
    words, share = made_up(_WORDS - 3), frequencies(_WORDS - 3)
    for block in range(-(-_SENTENCES // _BLOCK)):
        size = min(_BLOCK, _SENTENCES - block * _BLOCK)
        random = np.random.default_rng([block, 17])
        lengths = np.clip(random.normal(24, 9, size), 5, 60).astype(np.int64)
        for tokens in np.split(random.choice(_WORDS - 3, lengths.sum(), p=share), np.cumsum(lengths)[:-1]):
            place = int(random.integers(1, len(tokens) - 1))
            verb = int(tokens[place]) % (_VERBS - 1)
            found = ["O"] * len(tokens)
            for index, token in enumerate(tokens.tolist()):
                kind = (token * 7 + verb * 3 + (index < place)) % (2 * len(_ROLES))
                if kind < len(_ROLES):
                    begins = index == 0 or found[index - 1][2:] != _ROLES[kind]
                    found[index] = f"{'B' if begins else 'I'}-{_ROLES[kind]}"
            found[place] = "B-V"
            yield words[tokens].tolist(), f"v{verb}", found
