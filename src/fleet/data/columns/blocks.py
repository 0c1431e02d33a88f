"""Files in parts that can be read apart, and what a format of files must be able to do.

A block is a byte range of a text file, a row group of a Parquet file, or a whole file where nothing smaller can be read
alone. Blocks of all files make up the data; who reads which is decided elsewhere, by their sizes.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fleet.data.columns.records import Records
from fleet.data.columns.schema import Schema
from fleet.errors import UsageError, UsageTypeError

log = logging.getLogger(__name__)

MOST_TOLD = 5
"""How many bad lines are described; the rest is counted."""


@dataclass(frozen=True)
class Block:
    """`first` up to, without, `last`: bytes of a text file or row groups of a Parquet file; `size` in bytes."""

    path: str
    first: int
    last: int
    size: int


class FileFormat(Protocol):
    """How files of one kind are read. Used from several threads at once."""

    schema: Schema

    def cut(self, path: str, most_bytes: int) -> list[Block]:
        """The blocks of a file, in order, of about `most_bytes` where it can be cut; none if it is empty.

        A line belongs to the block that its first byte lies in.
        """

    def read(self, block: Block, problems: Problems) -> Records:
        """The samples of a block, in order, as columns of `schema.layout`; bad lines are noted and left out."""


class Problems:
    """Lines that could not be read: counted, the first described, and an error above a share of all. Thread-safe."""

    def __init__(self, most_share: float = 0.001, grace: int = 1000) -> None:
        """An error when more than `most_share` of the lines are bad: looked at after `grace` lines, and at the end."""
        if isinstance(most_share, bool) or not isinstance(most_share, int | float):
            raise UsageTypeError(f"bad must be a share of lines from 0 to 1, got {most_share!r}")
        if not 0 <= most_share <= 1:
            raise UsageError(f"the share of bad lines that is borne must lie in [0, 1], got {most_share}")
        self._most_share = most_share
        self._grace = grace
        self._lock = threading.Lock()
        self.num_lines = 0
        self.num_bad = 0
        self.told: list[str] = []

    def __reduce__(self) -> tuple[type[Problems], tuple[float, int]]:
        """For a process of a DataLoader that is not forked: it counts its own."""
        return Problems, (self._most_share, self._grace)

    def note(self, num_lines: int, bad: list[tuple[str, int, str]], num_bad: int | None = None) -> None:
        """Count lines that were read, bad ones among them; `bad` has some of those as (path, line, what).

        A line is given by its number in the file from 1, or, where that is not known, by the byte it begins at, as a
        negative number.
        """
        with self._lock:
            self.num_lines += num_lines
            self.num_bad += len(bad) if num_bad is None else num_bad
            for path, line, what in bad[: MOST_TOLD - len(self.told)]:
                where = f"{path}:{line}" if line > 0 else f"{path}, byte {-line}"
                self.told.append(f"{what} in {where}")
                log.warning("left out: %s", self.told[-1])
            if self.num_bad and self.num_lines >= self._grace:
                self._check()

    def finish(self) -> None:
        """At the end of an epoch: the same for data of a few lines."""
        with self._lock:
            if self.num_bad:
                self._check()

    def _check(self) -> None:
        if self.num_bad > self._most_share * self.num_lines:
            first = self.told[0] if self.told else "no line could be described"
            raise UsageError(
                f"{self.num_bad:,} of {self.num_lines:,} lines cannot be read, the first: {first}; mend the schema or "
                f"the files, or bear more with bad={math.ceil(1000 * self.num_bad / self.num_lines) / 1000:g} or above"
            )


class BadRows:
    """Rows of a table that cannot be used, and why, collected while the columns of `num` rows are converted."""

    def __init__(self, num: int) -> None:
        self._num = num
        self._mask: npt.NDArray[np.bool_] | None = None
        self._told: dict[int, str] = {}

    def add(self, rows: npt.NDArray[np.intp], what: Callable[[int], str]) -> None:
        """Rows (from 0, ascending) that are left out; `what(n)` describes the n-th of them."""
        if not len(rows):
            return
        if self._mask is None:
            self._mask = np.zeros(self._num, dtype=np.bool_)
        self._mask[rows] = True
        for place, row in enumerate(rows[:MOST_TOLD].tolist()):
            self._told.setdefault(row, what(place))

    def kept(self) -> npt.NDArray[np.int64] | None:
        """The rows that are left, or None if that is all."""
        return None if self._mask is None else np.flatnonzero(~self._mask).astype(np.int64, copy=False)

    def told(self) -> list[tuple[int, str]]:
        """Some of them and what is wrong, in their order."""
        return sorted(self._told.items())

    def finish(self, path: str, first_row: Callable[[], int], problems: Problems) -> npt.NDArray[np.int64] | None:
        """Note them; the rows that are left, or None if that is all. `first_row`: the table's first in its file."""
        if self._mask is None:
            problems.note(self._num, [])
            return None
        begin = first_row() + 1
        told: list[tuple[str, int, Any]] = [(path, begin + row, what) for row, what in self.told()]
        problems.note(self._num, told, int(self._mask.sum()))
        return self.kept()
