"""Files as plain bytes, wherever they lie and however they are packed."""

from __future__ import annotations

import builtins
import gzip
import os
from typing import BinaryIO, cast

from fleet.errors import UsageError


def packing_of(path: str) -> str | None:
    """`.gz` if the name of a file ends so; None: it is plain. A packed file is read from its beginning."""
    return ".gz" if path.lower().endswith(".gz") else None


def open(path: str) -> BinaryIO:
    """The plain bytes of a file, unpacked if its name ends with .gz."""
    try:
        if packing_of(path) is not None:
            return cast(BinaryIO, gzip.open(path, "rb"))
        return builtins.open(path, "rb")
    except OSError as error:
        raise _unreadable(path, error) from error


def size_of(path: str) -> int:
    """Bytes of a file as it lies there: of a packed one, its packed bytes."""
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{path} is not there, or not any more; leave the files alone until the job has ended")
    return UsageError(f"{path} cannot be read: {error.strerror}")
