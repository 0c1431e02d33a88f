"""Files as plain bytes, wherever they lie and however they are packed."""

from __future__ import annotations

import builtins
import os
from typing import BinaryIO

from fleet.data.places.listing import Paths, list_files
from fleet.data.places.unpacking import packing_of, unpacked
from fleet.data.places.urls import is_url, local_path, open_url, size_of_url
from fleet.errors import UsageError

__all__ = ["Paths", "list_files", "open", "open_as_it_is", "packing_of", "size_of"]


def open(path: str) -> BinaryIO:
    """The plain bytes of a file: local or behind a URL, unpacked if its name ends with .gz or .zst.

    What is packed can only be read from its beginning to its end; the rest can be read at any place.
    """
    source = open_as_it_is(path)
    if packing_of(path) is None:
        return source
    try:
        return unpacked(source, path)
    except BaseException:
        source.close()
        raise


def open_as_it_is(path: str) -> BinaryIO:
    """The bytes that lie there, packed or not."""
    path = local_path(path)
    if is_url(path):
        return open_url(path)
    try:
        return builtins.open(path, "rb")
    except OSError as error:
        raise _unreadable(path, error) from error


def size_of(path: str) -> int:
    """Bytes of a file as it lies there: of a packed one, its packed bytes."""
    path = local_path(path)
    if is_url(path):
        return size_of_url(path)
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{path} is not there, or not any more; leave the files alone until the job has ended")
    return UsageError(f"{path} cannot be read: {error.strerror}")
