"""Damage to a saved folder, of every kind that storage, people and scripts do: one at a time, drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from fleet.checkpoint.folders.seal import SEAL, seal

Damage = Callable[[Random, Path, Path | None], list[str]]
"""Damages a folder, given another save of the same model; the names of the files it touched, empty if it cannot."""


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def damage(rng: Random, folder: Path, other: Path | None) -> tuple[str, list[str]]:
    """Damage a folder; which kind it was, and which files it concerns. Something has changed afterwards."""
    before = files_of(folder)
    while True:
        kind = rng.choice(sorted(KINDS))
        touched = KINDS[kind](rng, folder, other)
        if touched and files_of(folder) != before:
            return kind, touched


def _one(rng: Random, folder: Path) -> tuple[str, bytes]:
    """A file, the small ones as often as the large."""
    found = files_of(folder)
    name = rng.choice(sorted(found))
    return name, found[name]


def _rewrite(change: Callable[[Random, bytearray], None]) -> Damage:
    def act(rng: Random, folder: Path, _: Path | None) -> list[str]:
        name, data = _one(rng, folder)
        changed = bytearray(data)
        if not changed:
            return []
        change(rng, changed)
        (folder / name).write_bytes(changed)
        return [name]

    return act


def _flip(rng: Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(rng: Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] = rng.choice([*b' 0129az\n"{},', rng.randrange(256)])


def _truncate(rng: Random, data: bytearray) -> None:
    del data[rng.choice([len(data) - 1, rng.randrange(len(data)), 0]) :]


def _extend(rng: Random, data: bytearray) -> None:
    data += rng.choice([b" ", b"\n", b"\0" * 8, rng.randbytes(rng.randrange(1, 100))])


def _zero(rng: Random, data: bytearray) -> None:
    begin = rng.randrange(len(data))
    end = min(len(data), begin + rng.choice([1, 16, 512]))
    data[begin:end] = bytes(end - begin)


def _swap(rng: Random, folder: Path, _: Path | None) -> list[str]:
    found = files_of(folder)
    if len(found) < 2:
        return []
    one, two = rng.sample(sorted(found), 2)
    (folder / one).write_bytes(found[two])
    (folder / two).write_bytes(found[one])
    return [one, two]


def _of_another_save(rng: Random, folder: Path, other: Path | None) -> list[str]:
    name, _ = _one(rng, folder)
    theirs = {} if other is None else files_of(other)
    if name not in theirs:
        return []
    (folder / name).write_bytes(theirs[name])
    return [name]


def _missing(rng: Random, folder: Path, _: Path | None) -> list[str]:
    name, _data = _one(rng, folder)
    (folder / name).unlink()
    return [name]


def _edited(rng: Random, folder: Path, _: Path | None) -> list[str]:
    """JSON that is still JSON: another value, a name that is gone, or other white space."""
    documents = {}
    for name, data in files_of(folder).items():
        try:
            document = json.loads(data)
        except ValueError:
            continue
        if isinstance(document, dict):
            documents[name] = document
    if not documents:
        return []
    name = rng.choice(sorted(documents))
    document = documents[name]
    if rng.random() < 0.9:
        _change(rng, document)
    (folder / name).write_text(json.dumps(document, indent=rng.choice([None, 1, 2])))
    return [name]


def _change(rng: Random, document: Any) -> None:
    """Walk down to some value, and change it."""
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = rng.choice(keys)
    value = document[key]
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        _change(rng, value)
    elif isinstance(value, bool):
        document[key] = not value
    elif isinstance(value, int | float):
        document[key] = rng.choice([value + 1, value * 2 + 1, 0, -value])
    elif isinstance(value, str):
        document[key] = rng.choice([value + "x", value[:-1], "1"])
    else:
        del document[key]


def resealed(document: dict[str, Any]) -> str:
    """A manifest that says something wrong under a right checksum: damage that only a wrong program does."""
    return seal({name: value for name, value in document.items() if name != SEAL}, {"indent": 1})


KINDS: dict[str, Damage] = {
    "flip": _rewrite(_flip),
    "byte": _rewrite(_byte),
    "truncate": _rewrite(_truncate),
    "extend": _rewrite(_extend),
    "zero": _rewrite(_zero),
    "swap": _swap,
    "of another save": _of_another_save,
    "missing": _missing,
    "edited": _edited,
}
