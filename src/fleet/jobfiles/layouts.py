"""Which servers a durable job has, while their number changes: notes in its folder that all of its processes read.

A layout has a number. That of the processes that fleetrun started first is 0, or what it found in the folder; each
change of the number of servers is the next. Of layout 3 there are, in DIR/layout,

    asked-3.json      somebody wants it, with so many servers; nobody else may want one until it is decided
    started-3.json    fleetrun has started its servers, at these endpoints, or says why it does not
    decided-3.json    it holds from now on, or was given up: whoever writes this file first decides

Files appear whole and are never written again, so that a process that was killed in between leaves one or the other.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet import env
from fleet.jobfiles import whole

_ASKED = re.compile(r"asked-(\d+)\.json")
_SERVER = re.compile(r"server-\d+(?:-(\d+))?")


@dataclass(frozen=True)
class Decided:
    """The end of a change: the endpoints of the servers that there are now, or why it was given up."""

    number: int
    endpoints: tuple[str, ...] = ()
    abandoned: str = ""


def own_layout() -> int:
    """The layout that the environment of this process describes."""
    return env.FLEET_LAYOUT.get() or 0


def own_layouts() -> Layouts | None:
    """The notes of this process's job; None if it is not durable."""
    folder = env.FLEET_DURABLE.get()
    return None if folder is None else Layouts(folder)


def server_folder(index: int, layout: int) -> str:
    """The name of what a server keeps in the folder of a durable job."""
    return f"server-{index}" if layout == 0 else f"server-{index}-{layout}"


class Layouts:
    """The notes in the folder of one job."""

    def __init__(self, durable: str | os.PathLike[str]) -> None:
        self.durable = Path(durable)
        self.folder = self.durable / "layout"

    def ask(self, num_servers: int) -> int | None:
        """Want another layout; its number, or None if one is wanted already and not decided."""
        number = self.newest + 1
        if self.undecided is not None or not self._put(f"asked-{number}.json", {"servers": num_servers}):
            return None
        return number

    def asked(self, number: int) -> int | None:
        """How many servers a layout is to have; None if nobody wants it."""
        found = self._read(f"asked-{number}.json")
        return None if found is None else int(found["servers"])

    def start(self, number: int, endpoints: Sequence[str], refused: str = "") -> None:
        """fleetrun has started the servers of a layout, or says why not."""
        self._put(f"started-{number}.json", {"endpoints": list(endpoints), "refused": refused})

    def started(self, number: int) -> tuple[tuple[str, ...], str] | None:
        """The endpoints of a layout's servers, or why there are none; None if fleetrun has not said."""
        found = self._read(f"started-{number}.json")
        return None if found is None else (tuple(found["endpoints"]), str(found["refused"]))

    def decide(self, number: int, endpoints: Sequence[str] = (), *, abandoned: str = "") -> Decided:
        """Decide about a layout; what was decided, which may be something else, by somebody who was there first."""
        self._put(f"decided-{number}.json", {"endpoints": list(endpoints), "abandoned": abandoned})
        decided = self.decided(number)
        assert decided is not None
        return decided

    def decided(self, number: int) -> Decided | None:
        """What was decided about a layout; None if nothing was."""
        found = self._read(f"decided-{number}.json")
        return None if found is None else Decided(number, tuple(found["endpoints"]), str(found["abandoned"]))

    @property
    def newest(self) -> int:
        """The newest layout that anybody has wanted."""
        with contextlib.suppress(FileNotFoundError):
            found = [int(match[1]) for name in os.listdir(self.folder) if (match := _ASKED.fullmatch(name))]
            return max(found, default=0)
        return 0

    @property
    def undecided(self) -> int | None:
        """The layout that is wanted now."""
        newest = self.newest
        return newest if newest and self.decided(newest) is None else None

    def present(self) -> Decided | None:
        """The layout that holds; None if the number of servers has never changed."""
        for number in range(self.newest, 0, -1):
            decided = self.decided(number)
            if decided is not None and decided.endpoints:
                return decided
        return None

    def later(self, number: int) -> Decided | None:
        """The layout that holds, if that is a later one than this."""
        if not self.folder.exists():
            return None
        present = self.present()
        return present if present is not None and present.number > number else None

    # Wishes from outside the job.

    def wish(self, num_servers: int) -> None:
        """Have worker 0 ask for another layout."""
        self._put("wish.json", {"servers": num_servers}, is_new=False)

    @property
    def has_wish(self) -> bool:
        """Whether somebody wishes for another layout."""
        return os.path.exists(self.folder / "wish.json")

    def take_wish(self) -> int | None:
        """What was wished for, once."""
        found = self._read("wish.json")
        (self.folder / "wish.json").unlink(missing_ok=True)
        return None if found is None else int(found["servers"])

    # What lies there.

    def moving(self, number: int) -> Path:
        """The folder by which rows go to the servers of a layout."""
        return self.folder / f"moving-{number}"

    def clear_moving(self, number: int) -> None:
        """Remove it."""
        shutil.rmtree(self.moving(number), ignore_errors=True)

    def clear_servers(self, is_past: Callable[[int], bool]) -> None:
        """Remove what the servers of some layouts have kept; none of them runs any more."""
        for path in self.durable.glob("server-*"):
            match = _SERVER.fullmatch(path.name)
            if match and path.is_dir() and is_past(int(match[1] or 0)):
                shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        """The job is over: nothing of it is left."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _put(self, name: str, content: dict[str, Any], *, is_new: bool = True) -> bool:
        """Write a file, unless it is there; whether this was done."""
        return whole.put(self.folder / name, content, is_new=is_new)

    def _read(self, name: str) -> dict[str, Any] | None:
        return whole.read(self.folder / name)
