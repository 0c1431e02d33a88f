"""Rows of a table that changed or were deleted since another save, to pieces and back.

A piece has rows as every piece of a table has them, keys that wait for a row, and the keys that are gone: whatever an
older save says of a key that is in it, holds no longer.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from fleet import _native
from fleet.checkpoint.files.forms import ChangedPiece, TableForm
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.files.pieces import Arrays, read_piece, write_piece
from fleet.checkpoint.state.rows import Keys, check_rows
from fleet.errors import CheckpointError

GONE = "gone"
_ROWS_BYTES = 256 << 20


class TouchedRows:
    """The rows of some keys of a table in portions: each is copied when it is written, or all are before; once."""

    has_disk = False

    def __init__(self, table: _native.Table, keys: Keys) -> None:
        self.form = table.width, table.state_width, table.has_clicks
        row_bytes = 4 * (table.width + table.state_width) + 24
        self.memory_bytes = len(keys) * row_bytes
        each = max(1, _ROWS_BYTES // row_bytes)
        portions = (keys[at : at + each] for at in range(0, max(1, len(keys)), each))
        self.portions: Iterator[Arrays] = map(table.export_keys, portions)

    def copied(self) -> "TouchedRows":
        """These, copied now; each portion is freed once it is written."""
        copies = list(self.portions)
        self.portions = (copies.pop(0) for _ in range(len(copies)))
        return self


def save_changed(
    table: TouchedRows,
    name: str,
    folder: Path,
    server: int,
    num_servers: int,
    *,
    dtype: str,
    rule: str,
    moved: Callable[[], None] = lambda: None,
) -> list[ChangedPiece]:
    """Write what changed of one server's part of a table into `folder`, which `begin` made; at least one piece."""
    width, state_width, has_clicks = table.form
    form = TableForm(width, dtype, rule, state_width, has_clicks)
    metadata = {"kind": "changed", "table": name, "dtype": dtype, "rule": rule, "server": f"{server}/{num_servers}"}
    pieces: list[ChangedPiece] = []
    for rows in table.portions:
        where = f"server-{server:03}-of-{num_servers:03}.changed-{len(pieces):04}"
        info = write_piece(folder / f"table-{file_name_of(name)}.{where}.safetensors", rows, metadata)
        sizes = len(rows["keys"]), len(rows["waiting_keys"]), len(rows[GONE])
        pieces.append(ChangedPiece(info, name, server, *sizes, form))
        moved()
    return pieces


def read_changed(folder: Path, piece: ChangedPiece) -> tuple[Arrays, Keys]:
    """The rows of a piece, and all keys that it says anything of; CheckpointError if it is damaged."""
    path = folder / piece.file.name
    rows = read_piece(path, piece.file)
    gone = rows.pop(GONE, None)
    check_rows(rows, piece.form, piece.rows, piece.waiting, f"{path} is damaged")
    if gone is None or gone.dtype != np.int64 or gone.shape != (piece.gone,):
        raise CheckpointError(f"{path} is damaged: it does not have the {piece.gone} keys that are gone")
    return rows, np.concatenate([rows["keys"], rows["waiting_keys"], gone])
