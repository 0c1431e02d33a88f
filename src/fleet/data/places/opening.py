"""Which files a user means, and their plain bytes, wherever they lie, packed (.gz, .zst) or not.

Paths, globs, folders, URLs, or a list of those. Damage is an error, never a silent end.
"""

import builtins
import glob
import gzip
import io
import os
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

from fleet.data.places.urls import fixed_part, is_url, list_url, local_path, needed, open_url, size_of_url
from fleet.errors import UsageError, UsageTypeError

UNFINISHED = (".tmp", ".inprogress", "._COPYING_")
"""How the names of files end that somebody is still writing."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def list_files(paths: Paths) -> list[tuple[str, int]]:
    """Every file with its size in bytes: in the order of the list, and sorted within each entry of it.

    Of folders, and of what a glob matches, names are passed over that begin with `.` or `_`, as `_SUCCESS` does, or end
    as a file does that is still being written. A folder inside a folder is not entered; `folder/**` enters it.
    """
    given: Any = [paths] if isinstance(paths, str | os.PathLike) else paths
    if isinstance(given, bytes) or not isinstance(given, Sequence):
        raise UsageTypeError(f"files are named by a path, a glob, a folder, a URL or a list of those, got {given!r}")
    if not given:
        raise UsageError("no files: the list of paths is empty")
    found: dict[str, int] = {}
    places: set[str] = set()
    for one in given:
        if not isinstance(one, str | os.PathLike):
            raise UsageTypeError(f"a file is named by text or a Path, got {one!r}")
        for path, size in _files_of(local_path(os.fspath(one))):
            place = path if is_url(path) else os.path.abspath(path)
            if place in places:
                raise UsageError(f"{path} is named twice, by {os.fspath(one)!r} and before it; name it once")
            places.add(place)
            found[path] = size
    return list(found.items())


def is_passed_over(path: str, start: str) -> bool:
    """Whether a file below `start` is none of the data: hidden, or not finished yet."""
    parts = path.removeprefix(start).strip("/").split("/")
    return any(part.startswith((".", "_")) for part in parts) or path.endswith(UNFINISHED)


def _files_of(path: str) -> list[tuple[str, int]]:
    start, found = list_url(path) if is_url(path) else _local(os.path.expanduser(path))
    if start is None:
        return found
    asks_for_hidden = path.rpartition("/")[2].startswith((".", "_"))
    kept = found if asks_for_hidden else [(name, size) for name, size in found if not is_passed_over(name, start)]
    if not kept:
        hidden = f" (passed over: {len(found)} hidden or unfinished)" if found else ""
        remedy = "" if glob.has_magic(path) else f"; to enter the folders in it, write {path.rstrip('/')}/**"
        raise UsageError(f"no file {'matches' if glob.has_magic(path) else 'lies in'} {path}{hidden}{remedy}")
    return kept


def _local(path: str) -> tuple[str | None, list[tuple[str, int]]]:
    """As `list_url` does it, on this machine."""
    if os.path.isfile(path):
        return None, [(path, os.path.getsize(path))]
    if os.path.isdir(path):
        return path, _in_folder(path)
    if glob.has_magic(path):
        matched = [name.rstrip("/") for name in glob.glob(path, recursive=True)]
        found = {name: os.path.getsize(name) for name in matched if os.path.isfile(name)}
        for folder in filter(os.path.isdir, matched):
            found.update(_in_folder(folder))
        return fixed_part(path), sorted(found.items())
    where = "" if os.path.isabs(path) else f" in {os.getcwd()}"
    raise UsageError(f"there is no file or folder {path}{where}")


def _in_folder(folder: str) -> list[tuple[str, int]]:
    with os.scandir(folder) as entries:
        return sorted((entry.path, entry.stat().st_size) for entry in entries if entry.is_file())


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
