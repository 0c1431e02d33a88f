"""Which rows have changed since a copy of them began; which have been deleted, as files for other copies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fleet.checkpoint.files.names import file_name_of
from fleet.errors import UsageError

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


class DeletedKeyFiles:
    """A folder that all servers see, in which each of them writes a file for each table: TABLE.server-000.npy.

    Keys are added to those that a file has: a call that was sent twice must not empty it.
    """

    def __init__(self, folder: str, server: int) -> None:
        """UsageError if nothing can be written there."""
        self._folder, self._server = Path(folder), server
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (probe := self._path("")).touch()
            probe.unlink()
        except (OSError, ValueError) as error:
            raise UsageError(f"server {server} cannot list keys in {folder!r}: {error}; nothing was deleted") from None

    def write(self, table: str, keys: NDArray[np.int64]) -> int:
        """Write the keys of a table, in ascending order; how many."""
        path = self._path(file_name_of(table))
        unfinished = path.with_name(f".{path.name}")
        known = np.load(path) if path.exists() else keys[:0]
        with unfinished.open("wb") as file:
            np.save(file, np.union1d(known, keys))
        unfinished.replace(path)
        return len(keys)

    def _path(self, stem: str) -> Path:
        return self._folder / f"{stem}.server-{self._server:03}.npy"
