"""Rows of sparse tables to and from pieces: a few shards at a time, into any number of servers."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.files import FULL, check_file, check_size, reading
from fleet.checkpoint.files.forms import TableForm, TablePiece
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.files.pieces import Arrays, read_piece, write_piece
from fleet.checkpoint.folders.manifest import Manifest
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
        manifest: Manifest,
        folder: Path,
        name: str,
        server: int,
        num_servers: int,
        *,
        dtype: str,
        rule: str,
        values_only: bool = False,
    ) -> None:
        pieces = manifest.tables.get(name)
        if pieces is None:
            there = ", ".join(map(repr, manifest.tables)) or "none"
            raise CheckpointError(f"{folder} has no table {name!r}; its tables: {there}")
        form = TableForm(table.width, dtype, rule, table.state_width, table.has_clicks)
        _check_form(name, folder, pieces[0].form, form, ("width", "dtype") if values_only else FORM_FIELDS)
        self._table = table
        self._folder = folder
        self._server, self._num_servers, self._num_saved = server, num_servers, manifest.num_servers
        self._values_only = values_only
        self._pieces = [
            piece for piece in pieces if may_share_keys(piece.server, manifest.num_servers, server, num_servers)
        ]
        self._runs = [
            run for run in manifest.runs(name) if may_share_keys(run.server, manifest.num_servers, server, num_servers)
        ]
        if self._runs and values_only:
            raise CheckpointError(
                f"table {name!r} in {folder} has rows in sealed files, which load with the state of their rule; "
                f"declare it with the rule {pieces[0].form.rule}"
            )
        self._files = [*(piece.file for piece in self._pieces), *(run.file for run in self._runs)]
        for file in self._files:
            with reading(folder / file.name) as descriptor:
                check_size(folder / file.name, descriptor, file)

    def check(self) -> None:
        """Read every piece and compare its sum, in little memory; CheckpointError for one that is damaged."""
        for file in self._files:
            check_file(self._folder / file.name, file)

    def load(self) -> int:
        """Replace what the table holds; how many rows it has now.

        If a piece turns out damaged, which `check` finds before, the table is left empty, never half full.
        """
        self._table.clear()
        try:
            self._load_runs()
            taken = sum(map(self._load_piece, self._pieces))
            return len(self._table) if self._runs else taken
        except BaseException:
            self._table.clear()
            raise

    @property
    def _is_attached(self) -> bool:
        """Whether files become this table's own: they do where the keys of a server are the same ones."""
        return self._table.has_disk and self._num_servers == self._num_saved

    def _load_runs(self) -> None:
        try:
            if not self._is_attached:
                for run in self._runs:  # the oldest of a shard first: newer ones take the place of what it has
                    self._table.import_file(str(self._folder / run.file.name), self._server, self._num_servers)
                return
            for shard, found in groupby(self._runs, lambda run: run.shard):
                runs = list(found)
                names = [run.file.name for run in reversed(runs)]
                self._table.attach(shard, runs[0].keys, names, str(self._folder))
        except OSError as error:
            if error.errno in FULL:  # that passes, and is no fault of the checkpoint
                raise
            raise CheckpointError(f"rows of {self._folder} cannot be loaded: {error.strerror}") from None

    def _load_piece(self, piece: TablePiece) -> int:
        path = self._folder / piece.file.name
        rows = read_piece(path, piece.file)
        on_disk = rows.pop("on_disk", None)
        check_rows(rows, piece.form, piece.rows, piece.waiting, f"{path} is damaged")
        if self._values_only:
            rows = _without_state(rows, self._table.has_clicks)
        if on_disk is not None and self._runs and self._is_attached:
            if on_disk.dtype != np.uint8 or on_disk.shape != (piece.rows,):
                raise CheckpointError(f"{path} is damaged: on_disk is {on_disk.dtype}{list(on_disk.shape)}")
            rows["on_disk"] = on_disk
        taken = self._table.import_(rows, self._server, self._num_servers)
        if self._num_servers == self._num_saved and taken != piece.rows:
            raise CheckpointError(f"{path} is damaged: {piece.rows - taken} of its {piece.rows} keys belong elsewhere")
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


def check_rows(rows: Arrays, form: TableForm, num_rows: int, num_waiting: int, where: str) -> None:
    """Every array that rows of this form have, of the right type and shape, and no other."""
    values = np.float32 if form.dtype == "float32" else np.uint16
    expected: dict[str, tuple[npt.DTypeLike, tuple[int, ...]]] = {
        "values": (values, (num_rows, form.width)),
        "state": (np.float32, (num_rows, form.state_width)),
    }
    for prefix, count in (("", num_rows), ("waiting_", num_waiting)):
        columns: dict[str, Any] = {"keys": np.int64, "seen": np.uint32, "step": np.uint32}
        if form.has_clicks:
            columns |= {"shows": np.float32, "clicks": np.float32}
        expected |= {prefix + column: (dtype, (count,)) for column, dtype in columns.items()}
    if rows.keys() != expected.keys():
        raise CheckpointError(f"{where}: it has the arrays {sorted(rows)}, expected {sorted(expected)}")
    for column, (dtype, shape) in expected.items():
        array = rows[column]
        if array.dtype != dtype or array.shape != shape:
            raise CheckpointError(
                f"{where}: {column} is {array.dtype}{list(array.shape)}, expected {np.dtype(dtype)}{list(shape)}"
            )
