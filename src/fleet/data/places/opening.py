"""Files as plain bytes, wherever they lie, packed (.gz, .zst) or not. Damage is an error, never a silent end."""

import builtins
import gzip
import io
import os
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from fleet.data.places.listing import Paths, list_files
from fleet.data.places.urls import is_url, local_path, needed, open_url, size_of_url
from fleet.errors import UsageError

PIECE_BYTES = 64 << 10
MOST_UNPACKED_BYTES = 1 << 20
ENDINGS = (".gz", ".zst")


def packing_of(path: str) -> str | None:
    """`.gz` or `.zst` if the name of a file ends so; None: it is plain. A packed file is read from its beginning."""
    lower = path.lower()
    return next((ending for ending in ENDINGS if lower.endswith(ending)), None)


def unpacked(source: BinaryIO, path: str) -> BinaryIO:
    """The plain bytes of an open packed file; closing the one closes the other."""
    if packing_of(path) == ".gz":
        read = partial(gzip.GzipFile(fileobj=source).read1, MOST_UNPACKED_BYTES)
        stream = _Unpacked(source, path, read, (gzip.BadGzipFile, zlib.error))
    else:
        package = needed("zstandard", f"files like {path}")
        stream = _Unpacked(source, path, _Zstandard(source, package.ZstdDecompressor()).read, (package.ZstdError,))
    return io.BufferedReader(stream, MOST_UNPACKED_BYTES)


class _Zstandard:
    """Frames of a zstd file, one after the other."""

    def __init__(self, source: BinaryIO, unpacker: Any) -> None:
        self._source, self._unpacker = source, unpacker
        self._frame: Any = None
        self._waiting = b""
        self._is_whole = True

    def read(self) -> bytes:
        """Some bytes; b"" behind the last frame, and EOFError in the middle of one."""
        while packed := self._waiting or self._source.read(PIECE_BYTES):
            if self._is_whole:
                self._frame, self._is_whole = self._unpacker.decompressobj(), False
            plain = self._frame.decompress(packed)
            self._is_whole = self._frame.eof
            self._waiting = self._frame.unused_data if self._is_whole else b""
            if plain:
                return bytes(plain)
        if not self._is_whole:
            raise EOFError
        return b""


class _Unpacked(io.RawIOBase):
    """A raw stream for `io.BufferedReader`."""

    def __init__(
        self, source: BinaryIO, path: str, read: Callable[[], bytes], wrong: tuple[type[Exception], ...]
    ) -> None:
        self._source, self._path = source, path
        self._read, self._wrong = read, wrong
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """As the contract of streams asks."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a part of the buffer; 0 at the end."""
        if not self._rest:
            self._rest = memoryview(self._more())
        room = memoryview(buffer).cast("B")
        count = min(len(room), len(self._rest))
        room[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _more(self) -> bytes:
        try:
            return self._read()
        except EOFError as error:
            raise UsageError(f"{self._path} is cut off in the middle; copy or write it again") from error
        except self._wrong as error:
            raise UsageError(f"{self._path} is damaged ({error}); copy or write it again") from error

    def close(self) -> None:
        """The packed file with it."""
        if not self.closed:
            self._source.close()
        super().close()


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
