"""Marks in the folder of a durable job, by which the next fleetrun knows that the job has finished.

What is marked counts as empty, whatever lies in it, and is emptied before a process starts there. The mark of a whole
job is one file in its folder, so that it is there or not; where several machines have a part of the job, each marks the
folders of its own workers.
"""

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

LEFT = "left"
"""In the folder of a worker: it has left its servers in order. Its next life removes it."""
FINISHED = "finished"
"""In the folder of a job, or of one worker: nothing in here is needed any more."""
_LOCK = "lock"


def is_finished(folder: Path) -> bool:
    """Whether the folder of a process, or that of its job, is marked."""
    return (folder / FINISHED).exists() or (folder.parent / FINISHED).exists()


def clear_finished(durable: Path, names: Iterable[str]) -> None:
    """Empty what is marked: everything, or of these processes; locks stay. Marks go last, so a kill does no harm."""
    with contextlib.suppress(OSError):  # somebody else's file, say: then the mark stays
        if (durable / FINISHED).exists():
            for folder in (*durable.glob("server-*"), *durable.glob("worker-*")):
                if folder.is_dir():
                    _empty(folder)
            (durable / FINISHED).unlink(missing_ok=True)
        for folder in (durable / name for name in names):
            if (folder / FINISHED).exists():
                _empty(folder)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name not in (FINISHED, _LOCK):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (folder / FINISHED).unlink(missing_ok=True)
