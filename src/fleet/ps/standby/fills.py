"""What a copy is given of its server's files: the newest snapshot, and the segments behind it."""

import os
from collections.abc import Callable
from pathlib import Path

from fleet.errors import CommunicationError, UsageError
from fleet.ps.journal.files import runs_path, segments_in
from fleet.ps.journal.snapshots import newest_snapshot
from fleet.ps.proto import ps_pb2


def files_to_begin_with(folder: Path, hurry: Callable[[], None]) -> tuple[int, list[ps_pb2.FollowReply.File]]:
    """The first segment that a copy needs, and the files of the snapshot before it, if there is one.

    `hurry` is called where a file is gone: a snapshot is to take its place.
    """
    snapshot, segments = newest_snapshot(folder), segments_in(folder)
    lsn = 0 if snapshot is None else int(snapshot.stem.rpartition("-")[2])
    begin = max((first for first, _ in segments if first <= lsn + 1), default=0)
    if not begin:  # a file is gone
        hurry()
        raise CommunicationError("the beginning of the journal is lost; wait for the snapshot in its place")
    paths: list[Path] = []
    if snapshot is not None:
        paths = [*sorted(runs_path(snapshot).glob("*")), snapshot]
    return begin, [ps_pb2.FollowReply.File(name=str(one.relative_to(folder)), size=one.stat().st_size) for one in paths]


def path_of(folder: Path, name: str) -> Path:
    """A file of the newest snapshot; no other may be asked for."""
    snapshot = newest_snapshot(folder)
    known = [] if snapshot is None else [snapshot, runs_path(snapshot) / Path(name).name]
    path = folder / name
    if path not in known:
        raise UsageError(f"{name!r} is no file of the newest snapshot; begin again")
    return path


def read_some(path: Path, at: int, most: int) -> bytes | None:
    """Bytes of a file; None if it is gone."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.pread(file, most, at)
    finally:
        os.close(file)
