"""Files whose rows are numbers that tell them apart, and a format that reads them: a number a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import fleet
from fleet.data.columns.blocks import Block, Problems
from fleet.data.columns.records import Column, Records

SCHEMA = fleet.data.Schema(categories=[fleet.data.Category("id", hash=False)], columns=["id"])


class Lines:
    """A line of digits is a row; any other is bad. Blocks are cut anywhere."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self.schema = SCHEMA
        self._most_bytes = most_bytes

    def cut(self, path: str, most_bytes: int) -> list[Block]:
        size = Path(path).stat().st_size
        step = self._most_bytes or most_bytes
        return [Block(path, first, min(first + step, size), min(step, size - first)) for first in range(0, size, step)]

    def read(self, block: Block, problems: Problems) -> Records:
        data = Path(block.path).read_bytes()
        first = 0 if block.first == 0 else data.find(b"\n", block.first - 1) + 1
        last = len(data) if block.last == len(data) else data.find(b"\n", block.last - 1) + 1
        lines = data[first:last].splitlines() if last > 0 and first <= last else []
        good = [int(line) for line in lines if line.isdigit()]
        bad = [(block.path, -first, f"{line!r} is no number") for line in lines if not line.isdigit()]
        problems.note(len(lines), bad)
        return Records(SCHEMA.layout, [Column(np.array(good, dtype=np.int64).reshape(-1, 1), None)], len(good))


def write(folder: Path, sizes: Sequence[int]) -> list[str]:
    """Files of so many rows each; numbers go on from file to file, with as many digits as they happen to have."""
    paths, number = [], 0
    for place, size in enumerate(sizes):
        path = folder / f"part-{place:03}.txt"
        path.write_text("".join(f"{one}\n" for one in range(number, number + size)))
        paths.append(str(path))
        number += size
    return paths


def ids(batch: fleet.data.Batch) -> list[int]:
    """The rows of a batch."""
    found: list[int] = batch.ids[:, 0].tolist()
    return found
