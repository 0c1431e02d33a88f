"""Which processes are the servers of a job with second copies, and which are copies: terms, in a folder of the job.

A term has a number, and holds until there is the next. Term 1 is written by every launcher before it starts processes.
The meeting point of the launchers alone decides later ones, and has every launcher write them down before any is used:

    DIR/terms/term-3.part    decided, and written down; nobody goes by it yet, but whoever takes the meeting point's
                             place begins with it
    DIR/terms/term-3.json    in use: the processes of this machine go by it

A term in use is never written again, so that two processes that speak of term 3 mean the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from fleet import env
from fleet.errors import UsageError
from fleet.jobfiles import whole
from fleet.jobfiles.layouts import Layouts, own_layouts
from fleet.json_form import JsonForm

_NAME = re.compile(r"term-(\d+)\.(json|part)")


@dataclass(frozen=True)
class Term(JsonForm):
    """Who is what, by endpoints."""

    number: int
    servers: tuple[str, ...]
    copies: tuple[str, ...]
    """The copy of each server that has all of it and may take its place; empty: there is none now."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The servers, as a layout names them."""
        return self.servers


def own_terms() -> Terms | None:
    """The terms of this process's job; None if its servers have no copies."""
    folder = env.FLEET_DURABLE.get()
    return None if folder is None or env.FLEET_STANDBY.get() is None else Terms(folder)


def own_whereabouts() -> Terms | Layouts | None:
    """Where this process's job says which servers it has now; None if they are always the same."""
    return own_terms() or own_layouts()


def own_term() -> int:
    """The newest term that this process can know; 0 in a job whose servers have no copies."""
    terms = own_terms()
    newest = None if terms is None else terms.newest()
    return 0 if newest is None else newest.number


def own_copy() -> int | None:
    """Which server this process was started as a copy of; None if it was not. The terms say whether it still is one."""
    return env.FLEET_COPY_OF.get() if env.FLEET_STANDBY.get() is not None else None


class Terms:
    """The terms that one machine knows, in its folder of the job. Cheap to ask often."""

    def __init__(self, durable: str | os.PathLike[str]) -> None:
        self.folder = Path(durable) / "terms"
        self._newest: Term | None = None

    def newest(self) -> Term | None:
        """The newest term in use; None before the first."""
        found = self._number("json")
        if found and (self._newest is None or self._newest.number != found):
            self._newest = self._read(found, "json")
        return self._newest

    def later(self, number: int) -> Term | None:
        """The newest term in use, if it comes after this one."""
        newest = self.newest()
        return newest if newest is not None and newest.number > number else None

    def newest_decided(self) -> Term | None:
        """The newest term that was written down here, whether or not it is in use."""
        part, used = self._number("part"), self._number("json")
        return self._read(part, "part") if part > used else self.newest()

    def write_down(self, term: Term) -> None:
        """Keep a term that was decided, on the disk; nobody goes by it yet. OSError if the disk does not take it."""
        whole.put(self._path(term.number, "part"), term.to_plain(), is_new=False)

    def use(self, term: Term) -> None:
        """Have this machine's processes go by a term; it stays as it is if that was done before.

        UsageError if they go by another of this number. OSError if the disk does not take it.
        """
        if not whole.put(self._path(term.number, "json"), term.to_plain()) and self._read(term.number, "json") != term:
            raise UsageError(f"{self.folder} has another term {term.number}; give every job a folder of its own")
        with contextlib.suppress(OSError):
            self._path(term.number, "part").unlink()

    def remove(self) -> None:
        """The job is over: nothing of it is left."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _number(self, ending: str) -> int:
        """The number of the newest file with this ending; 0: there is none."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return 0
        found = (match for name in names if (match := _NAME.fullmatch(name)) and match[2] == ending)
        return max((int(match[1]) for match in found), default=0)

    def _read(self, number: int, ending: str) -> Term:
        return Term.from_json(self._path(number, ending).read_text())

    def _path(self, number: int, ending: str) -> Path:
        return self.folder / f"term-{number}.{ending}"
