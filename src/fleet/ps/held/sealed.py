"""A table with rows on a disk as it was at one moment: links to its files, and a copy of what they lack."""

import os
import shutil
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fleet import _native

Rows = dict[str, npt.NDArray[Any]]
ShardFiles = tuple[int, int, list[str]]


class SealedTable:
    """What a save needs of a table; it takes memory only for rows that have changed. Its folder is removed with it."""

    has_disk = True

    def __init__(self, table: _native.Table, folder: Path, make: Callable[[Path], _native.Table]) -> None:
        """`make` makes an empty table of the same kind, whose files lie in a folder."""
        self.width, self.state_width, self.has_clicks = table.width, table.state_width, table.has_clicks
        self.num_shards, self.all_bytes = table.num_shards, table.all_bytes
        self._folder, self._make = folder, make
        self._close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._shards = [table.seal(shard, shard + 1, str(folder)) for shard in range(table.num_shards)]

    def seal(self, first_shard: int, last_shard: int, folder: str, prefix: str) -> tuple[Sequence[ShardFiles], Rows]:
        """Do what `seal` of the table does, for one shard, once."""
        assert last_shard == first_shard + 1
        ((shard, num_keys, names),), rows = self._shards[first_shard]
        for name in names:
            _link(self._folder / name, Path(folder, prefix + name))
        self._shards[first_shard] = [], {}
        return [(shard, num_keys, [prefix + name for name in names])], rows

    def export(self, first_shard: int, last_shard: int) -> Rows:
        """All rows of some shards."""
        scratch = self._folder / "scratch"
        table = self._make(scratch)
        for files, rows in self._shards[first_shard:last_shard]:
            for shard, num_keys, names in files:
                table.attach(shard, num_keys, names, str(self._folder))
            table.import_(rows, 0, 1)
        return table.export(first_shard, last_shard)


def _link(path: Path, to: Path) -> None:
    try:
        os.link(path, to)
    except OSError:  # it is on another file system
        shutil.copyfile(path, to)
