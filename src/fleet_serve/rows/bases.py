"""The mapped file of a table: made once of a saved folder, kept in a cache, and shared by all processes of a machine.

CACHE/TABLE.IDENTITY.float32.base       of the save with this identity; int8 where rows are kept in a byte a value
CACHE/.TABLE.*.base-draft               one that is being made

Whoever uses one of them holds a lock of it, by which others know. What nobody uses, and nobody has opened for an hour,
is removed when a model is loaded.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from fleet import _native
from fleet.checkpoint.files.files import FULL
from fleet.checkpoint.files.names import file_name_of
from fleet.errors import CheckpointError, UsageError
from fleet_serve.rows.saved import TableSource

FORMATS = {"float32": 0, "int8": 3}
"""As proto/ps.proto numbers them."""
BUILD_BYTES = 1 << 30
"""How much memory the making of a file may take beside what is read."""
UNUSED_S = 3600.0
"""How long a file is kept that nobody uses: a replica that is started again finds its own."""
_OURS = re.compile(r".+\.[0-9a-f]{16}\.(float32|int8)\.base|\..+\.base-draft")

_log = logging.getLogger("fleet.serve")


class HeldFile:
    """A file in use: as long as this lives nobody sweeps it, here or on another machine that shares it."""

    def __init__(self, path: Path) -> None:
        """OSError if it is not there, or goes at this moment."""
        self.path = path
        self._file = -1
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except PermissionError:  # a cache that is only read
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # no locks here: then nobody sweeps
            pass
        there = os.fstat(self._file)
        if not os.path.samestat(there, path.stat()):
            raise FileNotFoundError(f"{path} has been removed")
        with contextlib.suppress(OSError):
            os.utime(path, ns=(time.time_ns(), there.st_mtime_ns))

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def remove(self) -> None:
        """Remove the file unless others use it; who still answers from it here has it mapped."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.path.unlink()


def sweep(cache: Path, wanted: Collection[Path]) -> None:
    """Remove files of a cache that no living process uses, and nobody has opened for `UNUSED_S`."""
    with contextlib.suppress(OSError):
        for path in cache.iterdir():
            if path in wanted or not _OURS.fullmatch(path.name):
                continue
            with contextlib.suppress(OSError):
                status = path.stat()
                if time.time() - max(status.st_atime, status.st_mtime) > UNUSED_S:
                    HeldFile(path).remove()


def base_path(cache: Path, identity: str, table: str, form: str) -> Path:
    """Where the file of a table is kept."""
    return cache / f"{file_name_of(table)}.{identity}.{form}.base"


def open_base(
    path: Path, table: str, source: TableSource, form: str, *, in_memory: bool = False
) -> tuple[_native.ServedBase, HeldFile]:
    """The mapped file of a table, and that it is in use; it is made where there is none, or none that is whole."""
    with contextlib.suppress(OSError):
        return _opened(path, source, form, in_memory)
    began_at = time.monotonic()
    source.check()
    _make(path, table, source, form)
    _log.info("made %s of %s rows in %.1f s", path, f"{source.size:,}", time.monotonic() - began_at)
    try:
        return _opened(path, source, form, in_memory)
    except OSError as error:
        raise CheckpointError(f"{error}; or give another folder with --cache") from None


def _opened(path: Path, source: TableSource, form: str, in_memory: bool) -> tuple[_native.ServedBase, HeldFile]:
    held = HeldFile(path)
    base = _native.ServedBase(str(path), in_memory)
    if (len(base), base.width, base.format) != (source.size, source.width, FORMATS[form]):
        raise OSError("it is of another table")
    return base, held


def _make(path: Path, table: str, source: TableSource, form: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".base-draft")
    except OSError as error:
        raise UsageError(
            f"--cache {path.parent}: the file of table {table!r} cannot be made there ({error.strerror}); name a "
            "folder that can be written"
        ) from None
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH)
        writer = _native.ServedBaseWriter(draft, source.width, FORMATS[form], source.size, BUILD_BYTES)
        for keys, _ in source.chunks():
            writer.count(keys)
        while writer.next_pass():
            for keys, rows in source.chunks():
                writer.add(keys, rows)
        writer.finish()
        os.replace(draft, path)
    except ValueError as error:
        raise CheckpointError(f"table {table!r} cannot be served: {error}") from None
    except OSError as error:
        room = "; make room, or name another folder with --cache" if error.errno in FULL or not error.errno else ""
        raise CheckpointError(f"the file of table {table!r} cannot be made: {error}{room}") from None
    finally:
        os.close(file)
        Path(draft).unlink(missing_ok=True)
