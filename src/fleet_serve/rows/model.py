"""A model as it is served: one base, and the changes since; every answer is of one moment and says of which."""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet import _native
from fleet.checkpoint import Unseen
from fleet.errors import UsageError
from fleet.ps.held.unseen import UnseenRows
from fleet_serve.columns.raw import RawColumns
from fleet_serve.rows.bases import HeldFile, base_path, open_base, sweep
from fleet_serve.rows.saved import open_folder

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

log = logging.getLogger("fleet.serve")
_serials = itertools.count()


@dataclass(frozen=True)
class ServedVersion:
    """What an answer was computed from: a base, and of each shard the last batch of changes."""

    base: str
    numbers: tuple[int, ...]


class FoundRows(NamedTuple):
    """Rows of some keys of a table, and how many of them had none."""

    table: str
    rows: Floats
    num_unseen: int
    offsets: Keys | None = None
    """Where the rows of each sample begin, and the end, of a column with several values a sample."""


class TableChange(NamedTuple):
    """What a batch changes of a table: rows as they are afterwards, and keys that have none any more."""

    table: str
    keys: Keys
    rows: Floats
    gone: Keys


class DenseChange(NamedTuple):
    """Elements of a layer's parameter, flattened, from one on."""

    name: str
    begin: int
    values: Floats


@dataclass(frozen=True)
class ServedTable:
    """A table as it is served."""

    name: str
    width: int
    form: str
    unseen: Unseen
    base: _native.ServedBase
    held: HeldFile
    """Its file, which stays as long as this is in use."""
    first: UnseenRows | None
    """First values of keys without a row; None: zeros."""


class ServedModel:
    """The tables of a base and the changes since. Lookups may come from any number of threads, changes from one."""

    def __init__(
        self,
        name: str,
        tables: Sequence[ServedTable],
        numbers: Iterable[int],
        files: Sequence[Path],
        columns: RawColumns | None = None,
        dense: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self.name = name
        self.serial = next(_serials)
        """Another number for every model of this process."""
        self.columns = columns
        """What makes ids of raw columns, where its folder has a schema."""
        self.dense = dict(dense or {})
        """Layers and buffers by name; changed in place, in a moment of their own."""
        self.num_dense = 0
        """How often they have changed."""
        self.moment = threading.Lock()
        """Who holds it sees rows and layers of one moment; lookups alone do so without it."""
        self.tables: Mapping[str, ServedTable] = {table.name: table for table in tables}
        self.files = files
        """What it has mapped."""
        self._places = {table.name: place for place, table in enumerate(tables)}
        self._native = _native.ServedTables([table.base for table in tables], np.array(list(numbers), np.int64))

    @property
    def version(self) -> ServedVersion:
        """What a lookup now would be of."""
        return ServedVersion(self.name, tuple(self._native.numbers.tolist()))

    def num_changed(self, table: str) -> int:
        """How many keys of a table have changed since the base."""
        return self._native.num_changed(self._places[table])

    @property
    def changed_bytes(self) -> int:
        """The memory that changes take."""
        return self._native.changed_bytes

    def table(self, name: str) -> ServedTable:
        """A table by its name; UsageError that names those there are."""
        if (found := self.tables.get(name)) is None:
            there = ", ".join(map(repr, self.tables)) or "none"
            raise UsageError(f"there is no table {name!r}; ask for one of: {there}")
        return found

    def lookup(self, wanted: Sequence[tuple[str, Keys]]) -> tuple[list[FoundRows], ServedVersion]:
        """Rows of keys of any tables, all of one moment; UsageError where there is no such table."""
        asked = [(self.table(name), keys) for name, keys in wanted]
        found, numbers = self._native.lookup([(self._places[table.name], keys) for table, keys in asked])
        answers = []
        for (table, keys), (rows, missing) in zip(asked, found, strict=True):
            if table.first is not None and len(missing):
                rows[missing] = table.first(keys[missing])
            answers.append(FoundRows(table.name, rows, len(missing)))
        return answers, ServedVersion(self.name, tuple(numbers.tolist()))

    def apply(self, shard: int, number: int, changes: Iterable[TableChange], dense: Iterable[DenseChange] = ()) -> None:
        """Take one batch of a shard: lookups see all of it or nothing, and so do predictions.

        ValueError, and nothing is taken, where a layer has no such elements.
        """
        blocks = [(one, self.dense[one.name].reshape(-1)) for one in dense if one.name in self.dense]
        for one, known in blocks:
            if not 0 <= one.begin <= len(known) - len(one.values):
                raise ValueError(f"{one.name!r} has {len(known)} elements, not {len(one.values)} from {one.begin} on")
        with self.moment:
            self._native.apply(shard, number, [(self._places[one.table], *one[1:]) for one in changes])
            for one, known in blocks:
                known[one.begin : one.begin + len(one.values)] = one.values
            self.num_dense += len(blocks)


def load_model(
    folder: Path,
    cache: Path,
    *,
    form: str = "float32",
    in_memory: bool = False,
    numbers: Iterable[int] = (),
    has_layers: bool = False,
) -> ServedModel:
    """A folder as a model that is served; its files are made in `cache` unless they are there.

    `has_layers`: read layers and buffers too, for predictions.
    """
    saved = open_folder(folder)
    tables, files = [], [base_path(cache, saved.identity, name, form) for name in saved.tables]
    sweep(cache, files)
    for path, (name, source) in zip(files, saved.tables.items(), strict=True):
        base, held = open_base(path, name, source, form, in_memory=in_memory)
        first = UnseenRows(name, source.width, source.unseen) if source.unseen.reads == "initial" else None
        tables.append(ServedTable(name, source.width, form, source.unseen, base, held, first))
    rows = ", ".join(f"{table.name!r} {len(table.base):,} x {table.width}" for table in tables) or "no tables"
    log.info("serving %s: %s", saved.where, rows)
    columns = None if saved.schema is None else RawColumns(saved.schema, str(saved.where))
    dense = {name: np.array(values, order="C") for name, values in saved.dense().items()} if has_layers else {}
    return ServedModel(f"{saved.where.name}@{saved.identity}", tables, numbers, files, columns, dense)


def default_cache(folder: Path) -> Path:
    """Where mapped files lie unless somebody says otherwise: beside the folder."""
    return folder.absolute().parent / ".fleet-serve"


def local_cache(url: str) -> Path:
    """The same for a model that follows: each base is read once, and its folder may lie on another machine."""
    try:
        return Path.home() / ".cache" / "fleet" / "serve" / hashlib.sha256(url.encode()).hexdigest()[:16]
    except RuntimeError:
        raise UsageError(
            "there is no home for the files of tables; name a folder of this machine with --cache"
        ) from None
