"""Checkpoints, increments and inference copies, written anew without the rows of some keys.

One save after the other, each whole: files that have such rows get others beside them, under names of their own; then
the manifest that names these takes the place of the one before; then the old files go. Who is killed leaves the save
as it was or as it should be, and files that no manifest names, which the next try removes. The new manifest says which
manifests it has taken the place of, so increments on that save need not be changed at the same moment.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fleet import _native
from fleet.checkpoint import (
    ChangedPiece,
    FileInfo,
    InferenceIndex,
    Manifest,
    Piece,
    RunPiece,
    TablePart,
    TablePiece,
    read_contents,
    read_piece,
)
from fleet.checkpoint.files.checksum import NEW
from fleet.checkpoint.files.files import check_file, write_file
from fleet.checkpoint.files.pieces import Arrays, encoded, metadata_of
from fleet.checkpoint.folders.contents import Contents
from fleet.checkpoint.folders.folder import tidy
from fleet.checkpoint.folders.turns import turn
from fleet.checkpoint.state.changed import GONE
from fleet.checkpoint.state.parts import ON_DISK
from fleet.errors import CheckpointError
from fleet.jobfiles.whole import sync_folder
from fleet_tools.forgetting.patterns import Keys, Patterns

_AGAIN = re.compile(r"\.again-(\d+)")
_PIECE = re.compile(r".*\.(server|part)-\d+-of-\d+\..*|.*\.unfinished")
"""The names of files that servers write into a save; and of a manifest that nobody finished."""
_BESIDE = re.compile(r"\.(.+)\.(writing|old|trash)-[0-9a-f]{8}")


class Save:
    """One save: a folder, and what its last file says."""

    def __init__(self, folder: Path, kind: type[Contents]) -> None:
        self.folder, self.kind = folder, kind

    def forget(self, patterns: Patterns, is_on_changed: bool) -> int:
        """Write it anew where it has rows that are meant; how many files are others now.

        Their bytes are added to what is searched for. `is_on_changed`: what it builds on was written anew.
        """
        with turn(self.folder.parent, BUSY_S):
            contents = read_contents(self.folder, self.kind)
            new: Contents
            if isinstance(contents, InferenceIndex):
                new = _without_of_copy(self.folder, contents, patterns)
            else:
                assert isinstance(contents, Manifest)
                new = _without(self.folder, contents, patterns)
            changed = len({file.name for file in new.files} - {file.name for file in contents.files})
            if new != contents or is_on_changed:
                self._put(new)
            return changed + self._clear(new)

    def _put(self, contents: Contents) -> None:
        path = self.folder / self.kind.FILE
        if isinstance(contents, Manifest):
            former = hashlib.sha256(path.read_bytes()).hexdigest()
            contents = replace(contents, formerly=(*contents.formerly, former))
        contents.check(str(path))
        text, unfinished = contents.to_text().encode(), path.with_name(f"{path.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        write_file(unfinished, [text], len(text))
        sync_folder(self.folder)
        os.replace(unfinished, path)
        sync_folder(self.folder)

    def _clear(self, contents: Contents) -> int:
        """Remove what servers have written here and no manifest names any more; and what saves left beside."""
        names, removed = {file.name for file in contents.files}, 0
        for path in self.folder.iterdir():
            if path.name not in names and _PIECE.fullmatch(path.name) and path.is_file():
                path.unlink(missing_ok=True)
                removed += 1
        tidy(self.folder, self.kind)
        return removed


BUSY_S = 30.0
"""How long another save into the same folder may take meanwhile."""


def saves_below(folder: Path, without: Sequence[Path] = ()) -> list[Save]:
    """All saves in a folder and in those below it, but in some: what others build on comes before them."""
    found = []
    for top, folders, names in os.walk(folder):
        where = Path(top)
        folders[:] = [name for name in folders if where / name not in without]
        if (beside := _BESIDE.fullmatch(where.name)) is not None:
            if not (where.parent / beside[1]).exists():  # a commit was killed: what is whole takes its place
                kind: type[Contents] = InferenceIndex if InferenceIndex.FILE in names else Manifest
                tidy(where.parent / beside[1], kind)
                found += saves_below(where.parent / beside[1])
            folders.clear()
            continue
        for kind in (Manifest, InferenceIndex):
            if kind.FILE in names and _format(where / kind.FILE) == kind.FORMAT:
                found.append(Save(where, kind))
    return sorted(found, key=_depth)


def _format(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes()).get("format"))
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; remove that save, or bring its file back") from None


def parent_of(save: Save) -> Path | None:
    """The folder of the save that one builds on."""
    if save.kind is not Manifest:
        return None
    parent = read_contents(save.folder, Manifest).parent
    return None if parent is None else Path(os.path.normpath(save.folder / parent.folder))


def _depth(save: Save) -> tuple[int, str]:
    depth, at = 0, parent_of(save)
    while at is not None and (at / Manifest.FILE).exists():
        depth, at = depth + 1, parent_of(Save(at, Manifest))
    return depth, str(save.folder)


def _without(folder: Path, manifest: Manifest, patterns: Patterns) -> Manifest:
    """A manifest of the same save without some keys, whose new files are there."""
    pieces: list[Piece] = []
    runs: dict[tuple[str, int, int], Keys] = {}
    for piece in manifest.pieces:
        if isinstance(piece, RunPiece) and patterns.is_meant(piece.table):
            runs.setdefault((piece.table, piece.server, piece.shard), np.zeros(0, np.int64))
    for piece in manifest.pieces:
        if isinstance(piece, TablePiece | ChangedPiece) and patterns.is_meant(piece.table):
            pieces.append(_piece_without(folder, piece, patterns))
        elif not isinstance(piece, RunPiece) or not patterns.is_meant(piece.table):
            pieces.append(piece)
    for place in runs:
        pieces += _runs_without(folder, manifest, place, patterns)
    order = {piece.file.name: number for number, piece in enumerate(manifest.pieces)}
    pieces.sort(key=lambda piece: order.get(_plain(piece.file.name), order.get(piece.file.name, len(order))))
    return replace(manifest, pieces=tuple(pieces))


def _piece_without(folder: Path, piece: Any, patterns: Patterns) -> Any:
    rows = read_piece(folder / piece.file.name, piece.file)
    gone = {part: patterns.among(rows[part]) for part in ("keys", "waiting_keys", GONE) if part in rows}
    if not any(mask.any() for mask in gone.values()):
        return piece
    patterns.add_rows(rows["values"][gone["keys"]])
    kept = {name: array[~gone[_mask_of(name)]] for name, array in rows.items()}
    metadata = metadata_of(np.fromfile(folder / piece.file.name, np.uint8), piece.file.name)
    info = _write(folder, piece.file.name, kept, metadata)
    sizes = {"rows": len(kept["keys"]), "waiting": len(kept["waiting_keys"])}
    return replace(piece, file=info, **sizes, **({GONE: len(kept[GONE])} if GONE in kept else {}))


def _mask_of(name: str) -> str:
    return GONE if name == GONE else "waiting_keys" if name.startswith("waiting_") else "keys"


def _runs_without(folder: Path, manifest: Manifest, place: tuple[str, int, int], patterns: Patterns) -> list[RunPiece]:
    """The sealed files of one shard without some keys; one of which nothing stays goes."""
    table, server, shard = place
    runs = sorted(
        (one for one in manifest.runs(table) if (one.server, one.shard) == (server, shard)), key=lambda r: r.age
    )
    all_keys = [_native.run_keys(str(folder / run.file.name)) for run in runs]
    removed = np.unique(np.concatenate([keys[patterns.among(keys)] for keys in all_keys]))
    if not len(removed):
        return runs
    made: list[RunPiece] = []
    for run, keys in zip(runs, all_keys, strict=True):
        if not patterns.among(keys).any():
            made.append(run)
        elif not patterns.among(keys).all():
            made.append(replace(run, file=_run_without(folder, run.file, patterns)))
    piece = next(one for one in manifest.tables[table] if (one.server, one.first_shard) == (server, shard))
    rows = read_piece(folder / piece.file.name, piece.file)
    both = rows["keys"][rows[ON_DISK].astype(bool)] if ON_DISK in rows else rows["keys"][:0]
    alone = len(np.setdiff1d(removed, both))
    num_keys, num_alone = runs[0].keys - len(removed), runs[0].rows - alone
    return [replace(one, age=age, keys=num_keys, rows=0 if age else num_alone) for age, one in enumerate(made)]


def _run_without(folder: Path, info: FileInfo, patterns: Patterns) -> FileInfo:
    check_file(folder / info.name, info)
    name = _native.rewrite_run(str(folder / info.name), str(folder), patterns.keys)
    check = _native.RunCheck(str(folder / name))
    while check.next(1 << 20):
        pass
    return FileInfo(name, check.file_bytes, f"{NEW}:{check.checksum:08x}")


def _without_of_copy(folder: Path, index: InferenceIndex, patterns: Patterns) -> InferenceIndex:
    parts = [_part_without(folder, part, patterns) if patterns.is_meant(part.table) else part for part in index.tables]
    return replace(index, tables=tuple(parts))


def _part_without(folder: Path, part: TablePart, patterns: Patterns) -> TablePart:
    for info in (part.keys, part.values):
        check_file(folder / info.name, info)
    keys = np.load(folder / part.keys.name, allow_pickle=False)
    gone = patterns.among(keys)
    if not gone.any():
        return part
    values = np.load(folder / part.values.name, mmap_mode="r", allow_pickle=False)
    patterns.add_rows(np.array(values[gone]))
    made = [_write_array(folder, part.keys.name, keys[~gone]), _write_array(folder, part.values.name, values[~gone])]
    return replace(part, rows=int((~gone).sum()), keys=made[0], values=made[1])


def _write(folder: Path, name: str, arrays: Arrays, metadata: dict[str, str]) -> FileInfo:
    parts, size = encoded(arrays, metadata)
    return _write_new(folder, name, parts, size)


def _write_array(folder: Path, name: str, array: Any) -> FileInfo:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(np.ascontiguousarray(array)))
    return _write_new(folder, name, [head.getvalue(), np.ascontiguousarray(array)], head.tell() + array.nbytes)


def _write_new(folder: Path, name: str, parts: Any, size: int) -> FileInfo:
    """Under a name of its own: what the manifest names stays until another one names this."""
    number = int(found[1]) if (found := _AGAIN.search(name)) else 0
    stem, _, end = _plain(name).rpartition(".")
    path = folder / f"{stem}.again-{number + 1}.{end}"
    with suppress(FileNotFoundError):
        path.unlink()  # of a try that was killed
    return write_file(path, parts, size)


def _plain(name: str) -> str:
    return _AGAIN.sub("", name)
