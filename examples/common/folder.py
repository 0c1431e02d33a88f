"""The folder of a run: nobody writes over another run, or goes on from one with another model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import fleet
from fleet.errors import UsageError


def begin(folder: Path, resume: bool, describes: Mapping[str, object]) -> None:
    """Note in FOLDER/run.json what this run is, or compare it with what is to go on; every worker calls it.

    UsageError in one line if the folder holds another run.
    """
    note = folder / "run.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        was = json.loads(note.read_text()) if note.exists() else None
    except (OSError, ValueError) as error:
        raise UsageError(f"--out {folder} cannot be used ({error}); give another") from None
    if resume:
        _compare(folder, was, describes)
    elif any((folder / "checkpoints").glob("step-*")):
        raise UsageError(f"--out {folder} has checkpoints of an earlier run: give --resume, or another --out")
    fleet.barrier_worker()  # all have looked before one begins to write
    if fleet.is_first_worker():
        try:
            note.write_text(json.dumps(dict(describes)) + "\n")
        except OSError as error:
            raise UsageError(f"--out {folder}: nothing can be written there ({error.strerror}); give another") from None


def _compare(folder: Path, was: Mapping[str, object] | None, describes: Mapping[str, object]) -> None:
    if was is None:
        raise UsageError(f"--resume: {folder} has no run to go on with; leave --resume out to begin one")
    for name, value in describes.items():
        if was.get(name) != value:
            raise UsageError(
                f"--resume: {folder} is a run with {name} {was.get(name)!r}, and this is {value!r}; give another --out"
            )
