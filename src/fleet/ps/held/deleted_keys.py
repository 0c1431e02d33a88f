"""The keys of deleted rows, as files for other copies."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleet.checkpoint.files.names import file_name_of
from fleet.errors import UsageError
from fleet.ps.held.applicable import raise_if_full


class DeletedKeyFiles:
    """A folder that all servers see, in which each of them writes a file for each table: TABLE.server-000.npy.

    Keys are added to those that a file has. Files are written whole before rows are deleted, and take their places
    afterwards, which needs no room: so no row goes that is listed nowhere, and none is listed that stays.
    """

    def __init__(self, folder: str, server: int, change: str) -> None:
        """`change`: the id of the change that deletes the rows."""
        self._folder, self._server = Path(folder), server
        self._end = f".server-{server:03}.npy"
        self._unfinished = f".unfinished-{change}"

    def prepare(self, keys: Mapping[str, NDArray[np.int64]]) -> None:
        """Write the files, under other names; UsageError or NoRoomError if that cannot be done."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(f".*{self._end}.unfinished-*"):  # of a change that was never made
                left.unlink()
            for table, found in keys.items():
                path = self._folder / f"{file_name_of(table)}{self._end}"
                known = np.load(path) if path.exists() else found[:0]
                with path.with_name(f".{path.name}{self._unfinished}").open("wb") as file:
                    np.save(file, np.union1d(known, found))
                    file.flush()
                    os.fsync(file.fileno())
        except (OSError, ValueError, EOFError) as error:
            what = f"server {self._server} cannot list keys in {str(self._folder)!r}"
            if isinstance(error, OSError):
                raise_if_full(what, error)
            raise UsageError(f"{what}: {error}; nothing was deleted") from None

    def finish(self) -> None:
        """Have the files take their places, unless they have done so."""
        for file in self._folder.glob(f".*{self._end}{self._unfinished}"):
            file.replace(file.with_name(file.name.removeprefix(".").removesuffix(self._unfinished)))
