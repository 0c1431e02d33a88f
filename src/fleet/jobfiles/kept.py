"""Marks in the folder of a durable job: that it has finished, for the next fleetrun, and how many lives a process had.

What is marked counts as empty, whatever lies in it, and is emptied before a process starts there. The mark of a whole
job is one file in its folder, so that it is there or not; where several machines have a part of the job, each marks the
folders of its own workers.
"""

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from fleet import env
from fleet.jobfiles import whole

LEFT = "left"
"""In the folder of a worker: it has left its servers in order. Its next life removes it."""
DRAINED = "drained"
"""In the folder of a worker: it has left before its data was at an end, for workers come and go; its servers
have forgotten where it was."""
FINISHED = "finished"
"""In the folder of a job, or of one worker: nothing in here is needed any more."""
LIFE = "life"
"""In the folder of a server or worker that nobody else counts the lives of: which one began last."""
_LOCK = "lock"


def counted_life(folder: Path) -> int:
    """Which life of a process begins, from 0: as FLEET_LIFE says, else as counted in the folder that the process keeps.

    A worker that has left its servers in order has no further life: the next is the first of another job.
    """
    given = env.FLEET_LIFE.get()
    if given is not None:
        return given
    former = None if (folder / LEFT).exists() else (whole.read(folder / LIFE) or {}).get("life")
    life = former + 1 if isinstance(former, int) else 0
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    whole.replace(folder / LIFE, {"life": life})
    return life


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
