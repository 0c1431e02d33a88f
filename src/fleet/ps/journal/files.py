"""Files of a journal: their names, and writing that is whole or not at all."""

import ctypes
import mmap
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fleet.jobfiles.kept import LIFE
from fleet.jobfiles.whole import sync_folder as sync_folder

SEGMENT_PREFIX, SEGMENT_SUFFIX = "journal-", ".log"
SNAPSHOT_PREFIX, SNAPSHOT_SUFFIX = "snapshot-", ".snap"
UNFINISHED_SUFFIX = ".tmp"
MARK_NAME = "journal.end"
PROMISE_NAME = "copy.json"
"""The last term in which the second copy of a server was told that it is whole."""
RUNS_SUFFIX = ".runs"
"""The suffix of a folder beside a snapshot, with the files of its tables with rows on a disk."""

_MOST_BUFFERS = min(1024, os.sysconf("SC_IOV_MAX"))


def segment_path(folder: Path, first_lsn: int) -> Path:
    """The path of the segment that begins with this record."""
    return folder / f"{SEGMENT_PREFIX}{first_lsn:020d}{SEGMENT_SUFFIX}"


def snapshot_path(folder: Path, lsn: int) -> Path:
    """The path of the snapshot that begins at this record."""
    return folder / f"{SNAPSHOT_PREFIX}{lsn:020d}{SNAPSHOT_SUFFIX}"


def runs_path(snapshot: Path) -> Path:
    """The folder with the files that a snapshot links to."""
    return snapshot.with_suffix(RUNS_SUFFIX)


def segments_in(folder: Path) -> list[tuple[int, Path]]:
    """The segments of a folder with the number of their first record, in order."""
    return _numbered(folder, SEGMENT_PREFIX, SEGMENT_SUFFIX)


def snapshots_in(folder: Path) -> list[tuple[int, Path]]:
    """The complete snapshots of a folder with the number of the record that they begin at, in order."""
    return _numbered(folder, SNAPSHOT_PREFIX, SNAPSHOT_SUFFIX)


def is_ours(path: Path) -> bool:
    """Whether a file belongs to a journal."""
    name = path.name.removesuffix(UNFINISHED_SUFFIX)
    return (
        name in (MARK_NAME, PROMISE_NAME, LIFE)
        or (name.startswith(SEGMENT_PREFIX) and name.endswith(SEGMENT_SUFFIX))
        or (name.startswith(SNAPSHOT_PREFIX) and name.endswith((SNAPSHOT_SUFFIX, RUNS_SUFFIX)))
    )


def number_of(path: Path) -> int | None:
    """The number in the name of a segment or a snapshot; None if it has none."""
    _, _, number = path.stem.partition("-")
    return int(number) if number.isascii() and number.isdigit() else None


def _numbered(folder: Path, prefix: str, suffix: str) -> list[tuple[int, Path]]:
    paths = folder.glob(f"{prefix}*{suffix}")
    return sorted((number, path) for path in paths if (number := number_of(path)) is not None)


def write_all(file: int, buffers: Sequence[Any]) -> None:
    """Write all of the buffers, however little the system takes at once."""
    left = list(buffers)
    while left:
        written = os.writev(file, left[:_MOST_BUFFERS])
        done = 0
        while done < len(left) and written >= len(left[done]):
            written -= len(left[done])
            done += 1
        left = left[done:]
        if written:
            left[0] = memoryview(left[0])[written:]


_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_WRITE = 2  # SYNC_FILE_RANGE_WRITE


def reserve(file: int, size: int) -> None:
    """Have the file system find room for `size` bytes now, not write by write; where it cannot, nothing changes."""
    if (allocate := _of_libc("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)) is not None:
        allocate(file, _KEEP_SIZE, 0, size)


def begin_write_out(file: int, first: int, size: int) -> None:
    """Let the disk begin with bytes that were written, without waiting for it: a hint, and no promise."""
    kinds = ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
    if (begin := _of_libc("sync_file_range", *kinds)) is not None:
        begin(file, first, size, _WRITE)


@cache
def _of_libc(name: str, *kinds: Any) -> Any:
    """A function of the C library that Python does not have; None where there is none of this name."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.argtypes = kinds
    return function


def view_of(path: Path) -> memoryview:
    """The bytes of a file, read where they are needed; they stay as long as somebody holds a view."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
