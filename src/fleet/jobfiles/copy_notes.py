"""What servers and their copies tell fleetrun about each other, in a job whose servers have copies on other machines.

A copy says how far it is, and a server that it cannot reach its copy; `terms` has what becomes of it.
"""

import time
from pathlib import Path
from typing import NamedTuple

from fleet.jobfiles import whole
from fleet.jobfiles.process_files import ProcessFiles


class CopyNote(NamedTuple):
    """What a copy says of itself."""

    server: int
    """Whose copy it is."""
    term: int
    """The term in which the server has told it whether it is whole. In a later one that says nothing yet."""
    is_whole: bool
    """Whether it has all that the server has acknowledged, and the server waits for it from now on."""
    lsn: int
    """The last record that it has."""
    lag: int
    """How many records it lacks, as far as it knows."""
    time: float
    """When it said so, in seconds since 1970."""


class CopylessNote(NamedTuple):
    """What a server says that waits for a copy it cannot reach."""

    server: int
    term: int
    """The newest term that it knows."""
    why: str


def note_copy(server: int, term: int, *, is_whole: bool, lsn: int, lag: int) -> None:
    """Let fleetrun know how far this process is as a copy; nothing happens where no fleetrun has started it."""
    files = ProcessFiles.own()
    if files is not None:
        whole.replace(files.copy, CopyNote(server, term, is_whole, lsn, lag, time.time())._asdict())


def note_copyless(server: int, term: int, why: str) -> None:
    """Let fleetrun know that this server waits for its copy in vain."""
    files = ProcessFiles.own()
    if files is not None:
        whole.replace(files.copyless, CopylessNote(server, term, why)._asdict())


def copy_note(path: Path) -> CopyNote | None:
    """What a copy says; None if it has said nothing."""
    found = whole.read(path)
    return None if found is None else CopyNote(**found)


def copyless_note(path: Path) -> CopylessNote | None:
    """What a server says of its copy; None if it has nothing to say."""
    found = whole.read(path)
    return None if found is None else CopylessNote(**found)
