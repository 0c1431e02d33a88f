"""What each server has saved of a table: all of it in one save of a chain, and what changed in those behind it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fleet.checkpoint.files.files import FileInfo
from fleet.checkpoint.files.forms import ChangedPiece, RunPiece, TablePiece
from fleet.checkpoint.files.pieces import Arrays, read_piece
from fleet.checkpoint.folders.chain import ChainLink
from fleet.checkpoint.state.changed import read_changed
from fleet.checkpoint.state.rows import Keys, among, check_rows, only
from fleet.errors import CheckpointError

ON_DISK = "on_disk"
"""The array of a piece that says for each row whether a file has the key, too."""


class SavedRows(NamedTuple):
    """The rows of a piece that hold still, and how many of its keys that are."""

    path: Path
    rows: Arrays
    on_disk: Arrays
    """What a piece beside sealed files says of them."""


class ServerPart(NamedTuple):
    """What one server has saved of a table."""

    server: int
    folder: Path
    """Where it has saved all of it."""
    pieces: Sequence[TablePiece]
    runs: Sequence[RunPiece]
    changed: Sequence[tuple[Path, Sequence[ChangedPiece]]]
    """What changed since then, save after save."""

    @property
    def files(self) -> list[tuple[Path, FileInfo]]:
        """Every file, with its folder."""
        files = [*(piece.file for piece in self.pieces), *(run.file for run in self.runs)]
        changed = ((folder, piece.file) for folder, pieces in self.changed for piece in pieces)
        return [*((self.folder, file) for file in files), *changed]

    @property
    def most_rows(self) -> int:
        """How many rows there are at most, but for those in sealed files alone."""
        changed = sum(piece.rows for _, pieces in self.changed for piece in pieces)
        return sum(piece.rows for piece in self.pieces) + changed

    def rows(self) -> Iterator[SavedRows]:
        """The rows of every piece, the newest first, each key once; CheckpointError for one that is damaged."""
        newer: Keys = np.zeros(0, np.int64)
        for folder, pieces in reversed(self.changed):
            own = []
            for changed in pieces:
                rows, keys = read_changed(folder, changed)
                own.append(keys)
                yield SavedRows(folder / changed.file.name, _older(rows, newer), {})
            newer = np.union1d(newer, np.concatenate(own))
        for piece in self.pieces:
            path = self.folder / piece.file.name
            rows = read_piece(path, piece.file)
            on_disk = {ON_DISK: rows.pop(ON_DISK)} if ON_DISK in rows else {}
            check_rows(rows, piece.form, piece.rows, piece.waiting, f"{path} is damaged")
            yield SavedRows(path, _older(rows, newer), on_disk)


def parts_of(chain: Sequence[ChainLink], table: str) -> list[ServerPart]:
    """What the servers have saved of a table; CheckpointError if there is none, or its saves do not fit."""
    newest = chain[-1]
    if not any(table in link.manifest.tables for link in chain):
        there = ", ".join(map(repr, newest.manifest.tables)) or "none"
        raise CheckpointError(f"{newest.folder} has no table {table!r}; its tables: {there}")
    return [_part_of(chain, table, server) for server in range(newest.manifest.num_servers)]


def _part_of(chain: Sequence[ChainLink], table: str, server: int) -> ServerPart:
    changed: list[tuple[Path, Sequence[ChangedPiece]]] = []
    for folder, manifest in reversed(chain):
        pieces = [piece for piece in manifest.tables.get(table, ()) if piece.server == server]
        own = manifest.changed(table, server)
        if pieces:
            runs = [run for run in manifest.runs(table) if run.server == server]
            forms = {*(piece.form for piece in pieces), *(one.form for _, several in changed for one in several)}
            if len(forms) > 1 or (runs and changed):
                raise CheckpointError(
                    f"{chain[-1].folder} is damaged: its changes of table {table!r} do not fit {folder}"
                )
            return ServerPart(server, folder, pieces, runs, changed[::-1])
        if not own:
            break
        changed.append((folder, own))
    raise CheckpointError(
        f"{chain[-1].folder} is damaged: none of its saves has all of table {table!r} from server {server}"
    )


def _older(rows: Arrays, newer: Keys) -> Arrays:
    """The rows, and the keys that wait, of which no newer save says anything."""
    return only(rows, lambda own: ~among(own, newer)) if len(newer) else rows
