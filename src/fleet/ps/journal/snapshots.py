"""Snapshots: a whole state as a file of records, which counts once its last record is there and it has its name.

Each record carries the number of the last record of the journal that its contents include. A snapshot is written piece
by piece while training goes on, so these numbers may differ. Rows that lie in sealed files are not written
again: a folder beside the snapshot has links to those files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from fleet._native import crc32c
from fleet.ps.journal.files import (
    MARK_NAME,
    RUNS_SUFFIX,
    SNAPSHOT_SUFFIX,
    UNFINISHED_SUFFIX,
    is_ours,
    number_of,
    runs_path,
    snapshot_path,
    snapshots_in,
    sync_folder,
    view_of,
    write_all,
)
from fleet.ps.journal.records import HEAD_BYTES, JournalRecord, Kind, RecordPart, TornError, damaged, encode, read


class SnapshotWriter:
    """A snapshot that is being written; leaving the block without `finish` removes it."""

    def __init__(self, folder: Path, lsn: int) -> None:
        self.lsn = lsn
        self._path = snapshot_path(folder, lsn)
        self._unfinished = self._path.with_name(self._path.name + UNFINISHED_SUFFIX)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file = os.open(self._unfinished, flags, 0o600)
        self._num_records = self._chain = 0
        self._has_runs = False
        self.num_bytes = 0

    def __enter__(self) -> SnapshotWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._unfinished.unlink(missing_ok=True)
            shutil.rmtree(runs_path(self._path), ignore_errors=True)

    def runs(self) -> Path:
        """The folder for links to files, made when it is first asked for."""
        folder = runs_path(self._path)
        if not self._has_runs:
            shutil.rmtree(folder, ignore_errors=True)  # of an attempt that nobody finished
            folder.mkdir(mode=0o700)
            self._has_runs = True
        return folder

    def write(self, kind: Kind, lsn: int, parts: Sequence[RecordPart]) -> None:
        """Add a record with what was there after record `lsn` of the journal."""
        buffers = encode(lsn, kind, parts)
        write_all(self._file, buffers)
        self._num_records += 1
        self._chain = crc32c(buffers[0], self._chain)
        self.num_bytes += sum(map(len, buffers))

    def finish(self) -> None:
        """The snapshot is complete: let it take the place of those before it."""
        self.write(Kind.END, self.lsn, [RecordPart(end_text(self._num_records, self._chain))])
        os.fsync(self._file)
        os.close(self._file)
        self._file = -1
        if self._has_runs:
            sync_folder(runs_path(self._path))
        self._unfinished.replace(self._path)
        sync_folder(self._path.parent)
        for lsn, path in snapshots_in(self._path.parent):
            if lsn < self.lsn:
                path.unlink(missing_ok=True)
                shutil.rmtree(runs_path(path), ignore_errors=True)


def newest_snapshot(folder: Path) -> Path | None:
    """The snapshot to begin with, if there is one."""
    found = snapshots_in(folder)
    return found[-1][1] if found else None


def read_snapshot(path: Path) -> Iterator[JournalRecord]:
    """The records of a snapshot but the last, which says that it is complete; JournalError if it is not, or damaged.

    A caller must not take over what it has read before the end is reached.
    """
    num_records, end, chain, data = 0, 0, 0, view_of(path)
    try:
        for record in read(path, data):
            if record.kind is Kind.END:
                if (why := why_no_end(path, record, num_records, chain, len(data))) is not None:
                    raise damaged(path, record.begin, why)
                return
            yield record
            num_records, end = num_records + 1, record.end
            chain = crc32c(data[record.begin : record.begin + HEAD_BYTES], chain)
    except TornError:
        pass
    raise damaged(path, end, "the file ends before the snapshot does")


def end_text(num_records: int, chain: int) -> bytes:
    """What the last record says: how many came before it, and a checksum of their heads, one after the other."""
    return f"{num_records} {chain:08x}".encode()


def why_no_end(path: Path, record: JournalRecord, num_records: int, chain: int, size: int) -> str | None:
    """Why a snapshot of so many bytes cannot end with this record; None if it can. Earlier versions had no checksum."""
    if record.lsn != number_of(path):
        return f"it is the snapshot at record {record.lsn}, under this name"
    is_right = record.parts[0].header in (end_text(num_records, chain), str(num_records).encode())
    return None if is_right and record.end == size else "records are missing before its end, or something follows it"


def clear(folder: Path) -> None:
    """Remove every file of a journal and of its snapshots: first what says how far it goes, the snapshots last."""
    paths = [path for path in folder.iterdir() if is_ours(path)]
    for path in sorted(paths, key=lambda path: (path.suffix == SNAPSHOT_SUFFIX, path.name != MARK_NAME)):
        _remove(path)


def clear_unfinished(folder: Path) -> None:
    """Remove snapshots that nobody finished."""
    for path in folder.iterdir():
        is_lonely = path.suffix == RUNS_SUFFIX and not path.with_suffix(SNAPSHOT_SUFFIX).exists()
        if is_ours(path) and (path.name.endswith(UNFINISHED_SUFFIX) or is_lonely):
            _remove(path)


def _remove(path: Path) -> None:
    if path.suffix == RUNS_SUFFIX:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
