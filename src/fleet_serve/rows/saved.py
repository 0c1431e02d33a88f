"""Rows of a saved folder, piece by piece: an inference copy, or a checkpoint of servers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.checkpoint import (
    ChainLink,
    InferenceIndex,
    Manifest,
    TablePart,
    TrainingManifest,
    Unseen,
    find,
    read_chain,
)
from fleet.checkpoint.files.files import check_file
from fleet.checkpoint.folders.contents import Contents
from fleet.checkpoint.folders.folder import read_contents
from fleet.checkpoint.folders.inference import read_dense
from fleet.checkpoint.state.whole import read_dense_values, read_rows
from fleet.errors import CheckpointError
from fleet.ps.held.unseen import unseen_of
from fleet.ps.job.spec import JobSpec

CHUNK_ROWS = 1 << 18
Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Chunks = Iterator[tuple[Keys, Floats]]


@dataclass(frozen=True)
class TableSource:
    """The rows of one table of a folder."""

    width: int
    size: int
    unseen: Unseen
    check: Callable[[], None]
    """CheckpointError unless its files are as they were saved."""
    chunks: Callable[[], Chunks]
    """Keys and rows, in any order; the same each time."""


@dataclass(frozen=True)
class SavedFolder:
    """A folder with a model."""

    where: Path
    identity: str
    """Another one for every other save."""
    tables: Mapping[str, TableSource]
    dense: Callable[[], dict[str, npt.NDArray[Any]]]
    """Layers and buffers by name."""
    schema: Mapping[str, Any] | None = None
    """How raw columns become ids, if whoever saved it has said so."""


def open_folder(folder: str | os.PathLike[str]) -> SavedFolder:
    """What a folder has to serve; CheckpointError in one line where it has nothing."""
    try:
        where = find(folder, InferenceIndex)
    except CheckpointError:
        chain, kind = read_chain(_checkpoint(Path(folder))), Manifest
        where, manifest = chain[-1]
        specs = {spec.name: spec for spec in JobSpec.from_json(json.dumps(manifest.job)).tables}
        tables = {
            name: _of_chain(chain, name, unseen_of(specs[name]) if name in specs else Unseen())
            for name in chain[0].manifest.tables
        }
        return SavedFolder(where, _identity(where, kind), tables, partial(_dense_of, manifest, where))
    index = read_contents(where, InferenceIndex)
    names = sorted({part.table for part in index.tables})
    parts = {name: [part for part in index.tables if part.table == name] for name in names}
    tables = {name: _of_copy(where, parts[name]) for name in names}
    return SavedFolder(where, _identity(where, InferenceIndex), tables, partial(read_dense, where, index), index.schema)


def _checkpoint(folder: Path) -> Path:
    try:
        where = find(folder, Manifest)
    except CheckpointError:
        raise CheckpointError(
            f"no model to serve in {folder}: give a folder of fleet.save_inference_model() or fleet.save_persistables()"
        ) from None
    if json.loads((where / Manifest.FILE).read_bytes()).get("format") == TrainingManifest.FORMAT:
        raise CheckpointError(
            f"{folder} is of a run without servers, which has no tables; load it with fleet.load_inference_model()"
        )
    return where


def _identity(where: Path, kind: type[Contents]) -> str:
    return hashlib.sha256((where / kind.FILE).read_bytes()).hexdigest()[:16]


def _dense_of(manifest: Manifest, where: Path) -> dict[str, npt.NDArray[Any]]:
    shapes = dict(JobSpec.from_json(json.dumps(manifest.job)).dense.shapes)
    found = read_dense_values(manifest, where)
    return {name: values.reshape(shapes.get(name, values.shape)) for name, values in found.items()}


def _of_copy(where: Path, parts: list[TablePart]) -> TableSource:
    def check() -> None:
        for part in parts:
            for file in (part.keys, part.values):
                check_file(where / file.name, file)

    def chunks() -> Chunks:
        for part in parts:
            keys = _mapped(where / part.keys.name, np.int64, (part.rows,))
            values = _mapped(where / part.values.name, np.float32, (part.rows, part.width))
            for begin in range(0, part.rows, CHUNK_ROWS):
                yield keys[begin : begin + CHUNK_ROWS], values[begin : begin + CHUNK_ROWS]

    return TableSource(parts[0].width, sum(part.rows for part in parts), parts[0].unseen, check, chunks)


def _mapped(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; save it again") from None
    if array.dtype != dtype or array.shape != shape:
        raise CheckpointError(f"{path} is damaged: it has {array.dtype}{list(array.shape)}; save it again")
    return array


def _of_chain(chain: Sequence[ChainLink], table: str, unseen: Unseen) -> TableSource:
    """The rows of a checkpoint, or of one and the increments on it, which have to be read whole."""
    rows: list[tuple[Keys, Floats]] = []

    def read() -> tuple[Keys, Floats]:
        if not rows:
            rows.append(read_rows(chain, table))
        return rows[0]

    def chunks() -> Chunks:
        keys, values = read()
        for begin in range(0, len(keys), CHUNK_ROWS):
            yield keys[begin : begin + CHUNK_ROWS], values[begin : begin + CHUNK_ROWS]

    base = chain[0].manifest
    size = base.rows(table) if len(chain) == 1 else len(read()[0])
    return TableSource(base.tables[table][0].form.width, size, unseen, lambda: None, chunks)
