"""A file of JSON that is there whole or not at all, whoever is killed meanwhile and whoever reads it at that moment."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def replace(path: Path, value: object) -> bool:
    """Put JSON in the place of a file; False if that could not be done, as where a disk is full."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        new.write_text(json.dumps(value, separators=(",", ":")))
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        return False
    return True


def put(path: Path, value: object, *, is_new: bool = True) -> bool:
    """Write a file that the disk has on return; with `is_new` False, and nothing done, where it is there already.

    Its folder is made if need be; OSError if it cannot be written.
    """
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}"
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "w") as stream:
            json.dump(value, stream)
            stream.flush()
            os.fsync(stream.fileno())
        if is_new:
            os.link(part, path)
        else:
            os.replace(part, path)
        return True
    except FileExistsError:
        return False
    finally:
        part.unlink(missing_ok=True)
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder outlive a loss of power."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def read(path: Path) -> dict[str, Any] | None:
    """The object that `replace` wrote; None if there is nothing, or nothing that can be read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def moment(path: Path) -> float | None:
    """The `time` in such a file, in seconds since 1970; None if there is none."""
    found = (read(path) or {}).get("time")
    return float(found) if isinstance(found, int | float) else None
