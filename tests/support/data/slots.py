"""Variables that datasets are told about, and files of records that can be recognised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fleet.data import Ragged


class Var(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]
    lod_level: int = 0


USE_VAR = [Var("dense", "float32", (-1, 2)), Var("ids", "int64", (-1, 1), 1), Var("label", "int64", (-1, 1))]


def line(number: int) -> str:
    """Record `number`: it is in every slot, and its ids are one to three."""
    ids = [number] * (number % 3 + 1)
    return f"2 {number} 0.5 {len(ids)} {' '.join(map(str, ids))} 1 {number}\n"


def write(folder: Path, sizes: Iterable[int]) -> list[str]:
    """Files of so many records each, numbered through."""
    names, number = [], 0
    for place, size in enumerate(sizes):
        path = folder / f"part-{place}.txt"
        path.write_text("".join(line(number + i) for i in range(size)))
        names.append(str(path))
        number += size
    return names


def numbers(batch: Mapping[str, Any]) -> list[int]:
    """The records of a batch, whose slots must belong together."""
    labels: list[int] = batch["label"][:, 0].tolist()
    assert batch["dense"].tolist() == [[number, 0.5] for number in labels]
    ids = batch["ids"]
    assert isinstance(ids, Ragged)
    assert ids.values.shape == (int(ids.offsets[-1]), 1)
    parts = [ids.values[first:last, 0].tolist() for first, last in zip(ids.offsets, ids.offsets[1:], strict=False)]
    assert parts == [[number] * (number % 3 + 1) for number in labels]
    return labels
