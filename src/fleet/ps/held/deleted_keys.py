"""The keys of rows that a table has deleted, as files for whoever must delete them, too, such as a copy that serves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleet.checkpoint.files.names import file_name_of
from fleet.errors import UsageError


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
