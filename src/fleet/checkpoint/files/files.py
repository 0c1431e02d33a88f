"""Files that are whole or not there: written once, counted and summed on the way, forced to the disk.

The sum is taken of each chunk while the chunk is in the cache, and costs about 0.05 seconds per gigabyte of one core,
with the GIL released.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fleet.checkpoint.files.checksum import Checksum, is_checksum
from fleet.checkpoint.files.fields import Fields, Formed
from fleet.checkpoint.files.identity import later_save, of_another_save
from fleet.errors import CheckpointError

Bytes: TypeAlias = bytes | npt.NDArray[Any]

_CHUNK_BYTES = 1 << 20
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True)
class FileInfo(Formed):
    """A file of a checkpoint, as it was written: its path within the folder, its size and the sum of all its bytes."""

    name: str
    size_bytes: int
    checksum: str

    @classmethod
    def from_json(cls, fields: Fields) -> FileInfo:
        """Refuse a name that leads out of the folder."""
        name = fields.text("name")
        path = PurePosixPath(name)
        if not path.parts or "\0" in name or path.is_absolute() or ".." in path.parts or str(path) != name:
            raise CheckpointError(f"{fields.where} is damaged: {name!r} is not the name of a file in that folder")
        if "crc32" in fields.value and "checksum" not in fields.value:  # as the first versions wrote it
            checksum = f"crc32:{fields.integer('crc32', high=2**32 - 1):08x}"
        elif not is_checksum(checksum := fields.text("checksum")):
            raise CheckpointError(f"{fields.where} is damaged: {checksum!r:.60} is no checksum")
        return cls(name, fields.integer("size_bytes"), checksum)


def write_file(path: Path, parts: Iterable[Bytes], size_bytes: int, name: str | None = None) -> FileInfo:
    """Write the parts one after the other into a new file and force it to the disk.

    `size_bytes`, their sum, is what an error names when the disk is full. The file must not be there yet. Whatever
    fails, no partial file stays. `name` is the file's path within the checkpoint; without it, the last part of `path`.
    """
    written, total = 0, Checksum()
    made = False
    try:
        with open(path, "xb", buffering=0) as file:
            made = True
            for chunk in _chunks(parts):
                total.add(chunk)
                written += write_all(file, chunk)
            os.fsync(file.fileno())
    except BaseException as error:
        if made:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CheckpointError(why_not_written(path, error, size_bytes)) from error
        raise
    assert written == size_bytes, f"{path}: {written} bytes written, {size_bytes} announced"
    return FileInfo(name or path.name, written, str(total))


def write_all(file: FileIO, chunk: memoryview) -> int:
    """Write every byte, though the system may take fewer at a time; returns how many."""
    done = 0
    while done < len(chunk):
        done += file.write(chunk[done:])
    return done


def _chunks(parts: Iterable[Bytes]) -> Iterator[memoryview]:
    for part in parts:
        view = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data if isinstance(part, np.ndarray) else part
        for begin in range(0, len(view), _CHUNK_BYTES):
            yield memoryview(view)[begin : begin + _CHUNK_BYTES]


def why_not_written(path: Path, error: OSError, size_bytes: int) -> str:
    """One line: the file, what the system said of it, and the remedy."""
    if error.errno in FULL:
        # Gone with the folder or the mount: then the size alone has to do.
        try:
            free = f"{shutil.disk_usage(path.parent).free} are free there"
        except OSError:
            free = "the free space is unknown"
        return f"cannot write {path}: {error.strerror}; it needs {size_bytes} bytes, {free}; make room and save again"
    if error.errno == errno.ENOENT:
        if later := later_save(path):
            return f"cannot write {path}: {later}; save into one folder at a time"
        return (
            f"cannot write {path}: its folder is gone or not visible from this machine; either the save was aborted or "
            "another one began, or the machines do not share that file system"
        )
    if error.errno == errno.EEXIST:
        return f"cannot write {path}: it was written before in the same save; begin a new save"
    return f"cannot write {path}: {error.strerror or error}"


def read_file(path: Path, info: FileInfo) -> npt.NDArray[np.uint8]:
    """All bytes of a file; CheckpointError unless it has the size and the sum of `info`."""
    with reading(path) as descriptor:
        data = np.empty(check_size(path, descriptor, info), np.uint8)
        view, total, done = data.data, Checksum(info.checksum), 0
        while done < len(data):
            count = os.readv(descriptor, [view[done : done + _CHUNK_BYTES]])
            if count == 0:
                raise not_as_saved(path, f"it ended after {done} of {len(data)} bytes")
            total.add(view[done : done + count])
            done += count
    _compare(path, total, info)
    return data


def check_file(path: Path, info: FileInfo) -> None:
    """Read a file from end to end, in little memory; CheckpointError unless it has the size and sum of `info`."""
    with reading(path) as descriptor:
        size = check_size(path, descriptor, info)
        buffer, total, done = memoryview(bytearray(_CHUNK_BYTES)), Checksum(info.checksum), 0
        while done < size and (count := os.readv(descriptor, [buffer])):
            total.add(buffer[:count])
            done += count
    if done != size:
        raise not_as_saved(path, f"it has {done} bytes, saved were {size}")
    _compare(path, total, info)


def _compare(path: Path, total: Checksum, info: FileInfo) -> None:
    if str(total) != info.checksum:
        raise not_as_saved(path, f"its checksum is {total}, saved was {info.checksum}")


def check_size(path: Path, descriptor: int, info: FileInfo) -> int:
    """The size, if this is a plain file as long as `info` says."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{path} is not a plain file; a checkpoint has no other")
    if status.st_size != info.size_bytes:
        raise not_as_saved(path, f"it has {status.st_size} bytes, saved were {info.size_bytes}")
    return info.size_bytes


def not_as_saved(path: Path, why: str) -> CheckpointError:
    """One line for a file that is not, byte for byte, what was saved: damaged, or a file of another save."""
    return CheckpointError(f"{path} is damaged: {why}{of_another_save(path)}")


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """A descriptor to read from; what the system says becomes a CheckpointError that names the file."""
    descriptor = -1
    try:
        # Not to wait for a writer if somebody put a pipe there.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        yield descriptor
    except CheckpointError:
        raise
    except OSError as error:
        if descriptor < 0 and isinstance(error, FileNotFoundError):
            why = "is missing; the checkpoint is not complete, or its folder is not shared"
            raise CheckpointError(f"{path} {why}") from None
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)
