"""The mapped file of a table: made once of a saved folder, kept in a cache, and shared by all processes of a machine.

CACHE/TABLE.IDENTITY.float32.base       of the save with this identity; int8 where rows are kept in a byte a value
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
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

_log = logging.getLogger("fleet.serve")


def base_path(cache: Path, identity: str, table: str, form: str) -> Path:
    """Where the file of a table is kept."""
    return cache / f"{file_name_of(table)}.{identity}.{form}.base"


def open_base(path: Path, table: str, source: TableSource, form: str, *, in_memory: bool = False) -> _native.ServedBase:
    """The mapped file of a table; it is made where there is none, or none that is whole."""
    with contextlib.suppress(OSError):
        return _checked(_native.ServedBase(str(path), in_memory), source, form)
    began_at = time.monotonic()
    source.check()
    _make(path, table, source, form)
    _log.info("made %s of %s rows in %.1f s", path, f"{source.size:,}", time.monotonic() - began_at)
    try:
        return _checked(_native.ServedBase(str(path), in_memory), source, form)
    except OSError as error:
        raise CheckpointError(f"{error}; or give another folder with --cache") from None


def _checked(base: _native.ServedBase, source: TableSource, form: str) -> _native.ServedBase:
    if (len(base), base.width, base.format) != (source.size, source.width, FORMATS[form]):
        raise OSError("it is of another table")
    return base


def _make(path: Path, table: str, source: TableSource, form: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        os.close(file)
    except OSError as error:
        raise UsageError(
            f"--cache {path.parent}: the file of table {table!r} cannot be made there ({error.strerror}); name a "
            "folder that can be written"
        ) from None
    try:
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
        Path(draft).unlink(missing_ok=True)
