"""Tables with rows on a disk to and from a checkpoint: their sealed files are linked, and only the rest is written.

Of each shard a checkpoint has its files, which are those that the table itself uses, and a piece with the rows that
differ from them. A file never changes, so two names for it are as good as a copy; where the checkpoint is on another
file system it is copied. They load into a table of the same layout as they are, and into any other row by row.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from fleet import _native
from fleet.checkpoint.files.checksum import NEW
from fleet.checkpoint.files.files import FileInfo, why_not_written
from fleet.checkpoint.files.forms import RunPiece, TableForm, TablePiece
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.files.pieces import Arrays, write_piece
from fleet.checkpoint.state.parts import ON_DISK
from fleet.checkpoint.state.tables import ReadableTable
from fleet.errors import CheckpointError

_CHUNK_BYTES = 1 << 20

ShardFiles = tuple[int, int, list[str]]
"""The number of a shard, how many keys its files have, and their names, the newest first."""


class SealableTable(ReadableTable, Protocol):
    """What this package needs of a table with rows on a disk."""

    def seal(
        self, first_shard: int, last_shard: int, folder: str, prefix: str
    ) -> tuple[Sequence[ShardFiles], Arrays]: ...


def save_sealed(
    table: SealableTable,
    name: str,
    folder: Path,
    server: int,
    num_servers: int,
    *,
    dtype: str,
    rule: str,
    moved: Callable[[], None] = lambda: None,
) -> list[TablePiece | RunPiece]:
    """Link and write one server's part of a table into `folder`, which `begin` made; each shard is of one moment."""
    form = TableForm(table.width, dtype, rule, table.state_width, table.has_clicks)
    metadata = {"kind": "table", "table": name, "dtype": dtype, "rule": rule, "server": f"{server}/{num_servers}"}
    stem = f"table-{file_name_of(name)}.server-{server:03}-of-{num_servers:03}"
    pieces: list[TablePiece | RunPiece] = []
    for shard in range(table.num_shards):
        try:
            ((_, num_keys, names),), rows = table.seal(shard, shard + 1, str(folder), f"{stem}.")
        except OSError as error:
            raise CheckpointError(why_not_written(folder / stem, error, 0)) from error
        num_rows, num_waiting = len(rows["keys"]), len(rows["waiting_keys"])
        info = write_piece(folder / f"{stem}.piece-{shard:04}.safetensors", rows, metadata)
        pieces.append(TablePiece(info, name, server, shard, shard + 1, table.num_shards, num_rows, num_waiting, form))
        alone = num_keys - int(np.count_nonzero(rows[ON_DISK]))
        del rows  # before the next copy is made
        for age, file in enumerate(names):
            pieces.append(RunPiece(_info_of(folder / file), name, server, shard, age, num_keys, 0 if age else alone))
        moved()
    return pieces


def _info_of(path: Path) -> FileInfo:
    """Read a file that was linked, for its sum; CheckpointError if it is not what was written once."""
    try:
        check = _native.RunCheck(str(path))
        while check.next(_CHUNK_BYTES):
            pass
    except OSError as error:
        raise CheckpointError(f"{error.strerror}; it cannot be saved: load the last checkpoint") from None
    return FileInfo(path.name, check.file_bytes, f"{NEW}:{check.checksum:08x}")
