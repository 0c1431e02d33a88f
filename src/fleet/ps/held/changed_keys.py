"""Which rows have changed since a copy of them began, and how to pick them out of all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fleet.ps.held.requests import AssignedRows, PushedUpdate

_NOTED_AT_ONCE = 1 << 20


class ChangedKeys:
    """The keys whose rows have changed since a copy of them began, by table."""

    def __init__(self, num_tables: int) -> None:
        self._lock = threading.Lock()
        self._keys: list[list[NDArray[np.int64]]] = [[] for _ in range(num_tables)]
        self._sizes = [0] * num_tables
        self.is_spoiled = False
        """Whether rows were deleted or replaced: then the copy is worthless."""

    def add(self, updates: Sequence[PushedUpdate]) -> None:
        """Note what some pushes have changed."""
        with self._lock:
            for table, keys in (part for update in updates for part in update.keys):
                self._add(table, keys)

    def add_assigned(self, rows: AssignedRows) -> None:
        """Note rows that were written by value."""
        with self._lock:
            self._add(rows.table, rows.keys)

    def _add(self, table: int, keys: NDArray[np.int64]) -> None:
        self._keys[table].append(np.array(keys))  # not a view: it would keep the whole message
        self._sizes[table] += len(keys)
        if self._sizes[table] > _NOTED_AT_ONCE and len(self._keys[table]) > 1:
            self._keys[table] = [np.unique(np.concatenate(self._keys[table]))]
            self._sizes[table] = -len(self._keys[table][0])  # as many again before the next time

    def of(self, table: int) -> NDArray[np.int64]:
        """The noted keys of a table, ascending."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self._keys[table]]))


def only(rows: dict[str, Any], chosen: Callable[[NDArray[np.int64]], NDArray[np.bool_]]) -> dict[str, Any]:
    """The chosen ones among exported rows, and among keys that wait for a row."""
    masks = {False: chosen(rows["keys"]), True: chosen(rows["waiting_keys"]) if "waiting_keys" in rows else None}
    return {name: array[masks[name.startswith("waiting_")]] for name, array in rows.items()}


def among(own: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of `own` are among `keys`, which are ascending."""
    if not len(keys):
        return np.zeros(len(own), bool)
    at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
    found: NDArray[np.bool_] = keys[at] == own
    return found
