"""Rows of a table that cannot be used: which, and what is wrong with the first of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.data.columns.blocks import MOST_TOLD, Problems

Mask = npt.NDArray[np.bool_]


class BadRows:
    """Collected while the columns of `num` rows are converted."""

    def __init__(self, num: int) -> None:
        self._num = num
        self._mask: Mask | None = None
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
