"""Rows of sparse tables to and from pieces: a few shards at a time, into any number of servers."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol

import numpy as np

from fleet.checkpoint.files.files import FULL, check_file, check_size, reading
from fleet.checkpoint.files.forms import TableForm, TablePiece
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.files.pieces import Arrays, write_piece
from fleet.checkpoint.folders.chain import ChainLink
from fleet.checkpoint.state.parts import ON_DISK, SavedRows, ServerPart, parts_of
from fleet.checkpoint.state.rows import check_rows
from fleet.errors import CheckpointError

PIECE_BYTES = 256 << 20
FORM_FIELDS = ("width", "dtype", "rule", "state_width", "has_clicks")


class ReadableTable(Protocol):
    """What this package needs of a table to write it."""

    @property
    def width(self) -> int: ...
    @property
    def state_width(self) -> int: ...
    @property
    def has_clicks(self) -> bool: ...
    @property
    def num_shards(self) -> int: ...
    @property
    def all_bytes(self) -> int: ...
    @property
    def has_disk(self) -> bool: ...
    def export(self, first_shard: int, last_shard: int) -> Arrays: ...


class TableLike(ReadableTable, Protocol):
    """What it needs to read one back as well; `fleet._native.Table` has it."""

    def import_(self, rows: Arrays, server: int, num_servers: int) -> int: ...
    def import_file(self, path: str, server: int, num_servers: int) -> int: ...
    def attach(self, shard: int, num_keys: int, names: Sequence[str], folder: str) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...


def save_table(
    table: ReadableTable,
    name: str,
    folder: Path,
    server: int,
    num_servers: int,
    *,
    dtype: str,
    rule: str,
    piece_bytes: int = PIECE_BYTES,
    moved: Callable[[], None] = lambda: None,
) -> list[TablePiece]:
    """Write all rows of one server's part of a table into `folder`, which `begin` made; at least one piece.

    As many shards as make about `piece_bytes` go into one piece, and only one piece's rows are copied at a time. Each
    shard is copied in one go, so values, state and counts of a row are always of one moment.
    """
    form = TableForm(table.width, dtype, rule, table.state_width, table.has_clicks)
    metadata = {"kind": "table", "table": name, "dtype": dtype, "rule": rule, "server": f"{server}/{num_servers}"}
    num_shards = table.num_shards
    pieces: list[TablePiece] = []
    for first, last in shard_groups(table, piece_bytes):
        rows = table.export(first, last)
        num_rows, num_waiting = len(rows["keys"]), len(rows["waiting_keys"])
        check_rows(rows, form, num_rows, num_waiting, f"table {name!r}, shards {first} to {last - 1}")
        where = f"server-{server:03}-of-{num_servers:03}.piece-{len(pieces):04}"
        info = write_piece(folder / f"table-{file_name_of(name)}.{where}.safetensors", rows, metadata)
        pieces.append(TablePiece(info, name, server, first, last, num_shards, num_rows, num_waiting, form))
        del rows  # before the next copy is made
        moved()
    return pieces


def shard_groups(table: ReadableTable, piece_bytes: int = PIECE_BYTES) -> list[tuple[int, int]]:
    """Ranges of shards that hold about `piece_bytes` each; keys are hashed, so shards are about equal."""
    num_shards = table.num_shards
    size = max(1, min(num_shards, piece_bytes * num_shards // max(1, table.all_bytes)))
    return [(first, min(first + size, num_shards)) for first in range(0, num_shards, size)]


class TableLoad:
    """The rows of a table in a checkpoint that belong to one server, on their way into it.

    `values_only`: whatever rule they were trained by, without its state, into a table that has none. Only pieces that
    can hold such rows are read. CheckpointError, and nothing has changed, if the form differs or a piece is missing or
    too short.
    """

    def __init__(
        self,
        table: TableLike,
        chain: Sequence[ChainLink],
        name: str,
        server: int,
        num_servers: int,
        *,
        dtype: str,
        rule: str,
        values_only: bool = False,
    ) -> None:
        """`chain`: the saves of which the checkpoint is made, as `read_chain` gives them."""
        parts, where = parts_of(chain, name), chain[-1].folder
        form = TableForm(table.width, dtype, rule, table.state_width, table.has_clicks)
        _check_form(name, where, parts[0].pieces[0].form, form, ("width", "dtype") if values_only else FORM_FIELDS)
        self._table = table
        self._server, self._num_servers, self._num_saved = server, num_servers, len(parts)
        self._values_only = values_only
        self._parts = [part for part in parts if may_share_keys(part.server, len(parts), server, num_servers)]
        self._has_runs = any(part.runs for part in self._parts)
        if self._has_runs and values_only:
            raise CheckpointError(
                f"table {name!r} in {where} has rows in sealed files, which load with the state of their rule; "
                f"declare it with the rule {parts[0].pieces[0].form.rule}"
            )
        self._files = [(folder / file.name, file) for part in self._parts for folder, file in part.files]
        for path, file in self._files:
            with reading(path) as descriptor:
                check_size(path, descriptor, file)

    def check(self) -> None:
        """Read every piece and compare its sum, in little memory; CheckpointError for one that is damaged."""
        for path, file in self._files:
            check_file(path, file)

    def load(self) -> int:
        """Replace what the table holds; how many rows it has now.

        If a piece turns out damaged, which `check` finds before, the table is left empty, never half full.
        """
        self._table.clear()
        try:
            for part in self._parts:
                self._load_runs(part)
            taken = sum(self._take(saved) for part in self._parts for saved in part.rows())
            return len(self._table) if self._has_runs else taken
        except BaseException:
            self._table.clear()
            raise

    @property
    def _is_attached(self) -> bool:
        """Whether files become this table's own: they do where the keys of a server are the same ones."""
        return self._table.has_disk and self._num_servers == self._num_saved

    def _load_runs(self, part: ServerPart) -> None:
        try:
            if not self._is_attached:
                for run in part.runs:  # the oldest of a shard first: newer ones take the place of what it has
                    self._table.import_file(str(part.folder / run.file.name), self._server, self._num_servers)
                return
            for shard, found in groupby(part.runs, lambda run: run.shard):
                runs = list(found)
                names = [run.file.name for run in reversed(runs)]
                self._table.attach(shard, runs[0].keys, names, str(part.folder))
        except OSError as error:
            if error.errno in FULL:  # that passes, and is no fault of the checkpoint
                raise
            raise CheckpointError(f"rows of {part.folder} cannot be loaded: {error.strerror}") from None

    def _take(self, saved: SavedRows) -> int:
        rows, num_rows = saved.rows, len(saved.rows["keys"])
        if self._values_only:
            rows = _without_state(rows, self._table.has_clicks)
        if saved.on_disk and self._has_runs and self._is_attached:
            on_disk = saved.on_disk[ON_DISK]
            if on_disk.dtype != np.uint8 or on_disk.shape != (num_rows,):
                raise CheckpointError(f"{saved.path} is damaged: on_disk is {on_disk.dtype}{list(on_disk.shape)}")
            rows[ON_DISK] = on_disk
        taken = self._table.import_(rows, self._server, self._num_servers)
        if self._num_servers == self._num_saved and taken != num_rows:
            raise CheckpointError(
                f"{saved.path} is damaged: {num_rows - taken} of its {num_rows} keys belong elsewhere"
            )
        return taken


def may_share_keys(saved: int, num_saved: int, server: int, num_servers: int) -> bool:
    """Whether server `saved` of `num_saved` can have held keys that go to `server` of `num_servers`.

    Server s of n holds the keys whose hash, as a fraction, lies in [s/n, (s+1)/n): see csrc/keys/hash.h.
    """
    return saved * num_servers < (server + 1) * num_saved and server * num_saved < (saved + 1) * num_servers


def _without_state(rows: Arrays, has_clicks: bool) -> Arrays:
    """Rows for a table whose rule keeps no state; shows and clicks only where it counts them."""
    kept = {name: array for name, array in rows.items() if has_clicks or not name.endswith(("shows", "clicks"))}
    if has_clicks:
        for prefix in ("", "waiting_"):
            for column in ("shows", "clicks"):
                kept.setdefault(prefix + column, np.zeros(len(rows[f"{prefix}keys"]), np.float32))
    return {**kept, "state": np.zeros((len(rows["keys"]), 0), np.float32)}


def _check_form(name: str, folder: Path, saved: TableForm, wanted: TableForm, fields: Sequence[str]) -> None:
    for field in fields:
        if getattr(saved, field) != getattr(wanted, field):
            raise CheckpointError(
                f"table {name!r} does not fit {folder}: {field} is {getattr(wanted, field)!r} here and "
                f"{getattr(saved, field)!r} in the checkpoint; declare the table as it was saved"
            )
