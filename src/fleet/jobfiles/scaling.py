"""How many workers and servers a durable job may have, and how many workers somebody wants: notes in its folder.

In DIR/scale,

    limits.json    the least and the most of both, written when the job begins
    wanted.json    so many workers; the job goes on with that number when it is started again
    done.json      what fleetrun has made of the wish with this number
"""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fleet.jobfiles import whole


class ScaleLimits(NamedTuple):
    """The least and the most of a kind of process."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least}:{self.most}"


@dataclass(frozen=True)
class ScaleWish:
    """How many workers there are to be; each wish has a number."""

    number: int
    workers: int


class ScaleNotes:
    """The notes in the folder of one job."""

    def __init__(self, durable: str | Path) -> None:
        self.folder = Path(durable) / "scale"

    def limit(self, workers: ScaleLimits | None, servers: ScaleLimits | None) -> None:
        """Say how many there may be; None: their number is what it is."""
        whole.put(self.folder / "limits.json", {"workers": workers, "servers": servers}, is_new=False)

    def limits(self, role: str) -> ScaleLimits | None:
        """How many `workers` or `servers` there may be; None: nobody has said."""
        found = (whole.read(self.folder / "limits.json") or {}).get(role)
        return None if found is None else ScaleLimits(*found)

    def wish(self, workers: int) -> int:
        """Want so many workers; the number of the wish."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:  # held for as long as it takes to write a file
            fcntl.flock(lock, fcntl.LOCK_EX)
            number = 1 if (before := self.wanted()) is None else before.number + 1
            whole.put(self.folder / "wanted.json", {"number": number, "workers": workers}, is_new=False)
        return number

    def wanted(self) -> ScaleWish | None:
        """The newest wish."""
        found = whole.read(self.folder / "wanted.json")
        return None if found is None else ScaleWish(int(found["number"]), int(found["workers"]))

    def done(self, number: int, failure: str = "") -> None:
        """There are as many workers as this wish says, or why not."""
        whole.put(self.folder / "done.json", {"number": number, "failure": failure}, is_new=False)

    def answer(self, number: int) -> str | None:
        """What became of a wish: empty, or why it came to nothing; None: not yet known."""
        found = whole.read(self.folder / "done.json")
        return None if found is None or int(found["number"]) < number else str(found["failure"])

    def remove(self) -> None:
        """The job is over: nothing of it is left."""
        shutil.rmtree(self.folder, ignore_errors=True)
