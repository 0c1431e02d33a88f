"""A file of JSON that is there whole or not at all, whoever is killed meanwhile and whoever reads it at that moment."""

from __future__ import annotations

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
