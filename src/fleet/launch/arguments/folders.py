"""Folders that the user names: refused where nothing could be written into them, before anything is started."""

from __future__ import annotations

import os
from pathlib import Path

from fleet.errors import UsageError


def check_folder(path: Path, option: str = "--log_dir") -> None:
    """Refuse a folder that cannot be made or written to, without making it."""
    try:
        nearest = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    except OSError as error:  # the working folder is gone
        raise UsageError(f"{option} {path}: {error.strerror}; go to a folder that exists") from error
    if not nearest.is_dir():
        raise UsageError(f"{option} {path}: {nearest} is not a folder; choose another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path}: {nearest} cannot be written to; choose another")
