"""Looks for forgotten keys and rows in every file below a folder.

The bytes of rows are searched in all files. Keys are searched by the format of a file where that is known: pieces of
checkpoints and batches of streams, inference copies, journals, snapshots, outboxes, sealed files of rows. Wide keys are
searched as bytes as well, where rows of all tables are forgotten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.files.pieces import decode, metadata_of
from fleet.errors import CheckpointError, FleetError
from fleet.ps.job.spec import JobSpec
from fleet.ps.journal.files import snapshots_in
from fleet.ps.journal.records import JournalRecord, Kind, RecordPart, read
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.parts import exported
from fleet_tools.forgetting.patterns import Keys, Patterns
from fleet_tools.forgetting.report import SearchedPlace

Found = Iterator[tuple[str | None, Keys]]
"""Keys, each with the table that they are of, where that is known."""


def search(folder: Path, patterns: Patterns, place: SearchedPlace) -> None:
    """Look into every file below a folder; one that goes meanwhile has nothing."""
    for top, _, names in os.walk(folder):
        for name in names:
            path = Path(top) / name
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink():
                    _search_file(path, patterns, place)


def _search_file(path: Path, patterns: Patterns, place: SearchedPlace) -> None:
    data = np.fromfile(path, np.uint8)
    place.files, place.size_bytes = place.files + 1, place.size_bytes + len(data)
    keys_of = _reader_of(path)
    for offset, what in patterns.hits(data, with_keys=patterns.tables is None or keys_of is None):
        place.note(f"{what} at byte {offset} of {path}")
    if keys_of is None:
        return
    with suppress(FleetError, ValueError, KeyError):  # half written, or damaged: its bytes were searched
        for table, keys in keys_of(path, data):
            if patterns.is_meant(table):
                for _ in range(int(patterns.among(keys).sum())):
                    place.note(f"a key of table {table!r} in {path}")


def _reader_of(path: Path) -> Any:
    """What reads the keys in a file; None if its format is not known."""
    name = path.name
    if name.endswith(".safetensors") or (name.isdecimal() and path.parent.name.startswith("shard-")):
        return _of_tensors
    if name.endswith(".npy") and ".keys." in name:
        return _of_array
    if name.endswith(".run") or ".run." in name:
        return _of_run
    is_journal = name.startswith(("journal-", "snapshot-")) and name.endswith((".log", ".snap", ".tmp"))
    return _of_journal if is_journal or name in ("outbox", "change", "inputs-0", "inputs-1") else None


def _of_tensors(path: Path, data: NDArray[np.uint8]) -> Found:
    table = metadata_of(data, str(path)).get("table")
    for name, array in decode(data, str(path)).items():
        kind, _, of = name.partition("/")
        if kind in ("keys", "waiting_keys", "gone") and array.dtype == np.int64:
            yield of or table, array


def _of_array(path: Path, _: NDArray[np.uint8]) -> Found:
    index = path.parent / "inference.json"
    names: set[str] = set()
    with suppress(OSError, ValueError):
        names = {part["table"] for part in json.loads(index.read_bytes())["tables"]}
    known = [name for name in names if path.name.startswith(f"{file_name_of(name)}.part-")]
    yield known[0] if known else None, np.asarray(np.load(path, allow_pickle=False), np.int64)


def _of_run(path: Path, _: NDArray[np.uint8]) -> Found:
    try:
        yield None, _native.run_keys(str(path))
    except OSError as error:
        raise CheckpointError(str(error)) from None


def _of_journal(path: Path, data: NDArray[np.uint8]) -> Found:
    names = _tables_of(path.parent)
    for record in read(path, data.data):
        for table, keys in _of_record(record):
            yield names[table] if table is not None and table < len(names) else None, keys


def _tables_of(folder: Path) -> list[str]:
    """The names of the tables of a server, by their indexes, where a snapshot says them."""
    for _, path in reversed(snapshots_in(folder)):
        with suppress(OSError, FleetError, ValueError, KeyError, StopIteration):
            state = json.loads(next(read(path, memoryview(path.read_bytes()))).parts[0].header)
            return [spec.name for spec in JobSpec.from_json(state["job"]).tables]
    return []


def _of_record(record: JournalRecord) -> Iterator[tuple[int | None, Keys]]:
    if record.kind in (Kind.PUSH, Kind.STEP, Kind.COLLECT):
        for part in record.parts:
            yield from _of_push(part)
    elif record.kind == Kind.ASSIGN:
        for part in record.parts:
            if part.tensors:
                yield ps_pb2.AssignRequest.Header.FromString(part.header).table, _keys(part.tensors[0])
    elif record.kind == Kind.FORGET:
        for part in record.parts:
            with suppress(ValueError):
                yield None, _keys(ps_pb2.ForgetRequest.Header.FromString(part.header).keys)
    elif record.kind == Kind.TOUCHED:
        for part in record.parts:
            for number, tensor in enumerate(part.tensors):
                yield number % (len(part.tensors) // 2), _keys(tensor)
    elif record.kind in (Kind.ROWS, Kind.ADOPT):
        for part in record.parts[2:] if record.kind == Kind.ADOPT else record.parts:
            table, _, rows = exported(part)
            yield table, rows["keys"]
            yield table, rows["waiting_keys"]


def _of_push(part: RecordPart) -> Iterator[tuple[int | None, Keys]]:
    header, at = ps_pb2.PushRequest.Header.FromString(part.header), 0
    for one in header.tables:
        yield one.table, _keys(part.tensors[at])
        at += 2 + one.has_counts + 2 * one.has_clicks
    for table, tensor in zip(
        header.pull_tables, part.tensors[len(part.tensors) - len(header.pull_tables) :], strict=False
    ):
        yield table, _keys(tensor)


def _keys(tensor: Any) -> Keys:
    return np.frombuffer(tensor, np.int64)
