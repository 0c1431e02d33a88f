"""Which files a user means: paths, globs, folders, URLs, or a list of those."""

import glob
import os
from collections.abc import Sequence
from typing import Any

from fleet.data.places.urls import fixed_part, is_url, list_url, local_path
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
