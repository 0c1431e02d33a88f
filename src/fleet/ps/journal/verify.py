"""Whether what a server keeps on its disk is what was written: read from end to end, without the GIL, and not taken up.

What recovery would refuse is found here, and also damage in rows of sealed files, which a recovery does not read.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fleet import _native
from fleet.ps.journal.files import MARK_NAME, runs_path, segments_in, snapshots_in, view_of
from fleet.ps.journal.mark import damage_of_mark, read_mark
from fleet.ps.journal.records import JournalError, Kind, TornError, damaged, read_one
from fleet.ps.journal.segments import SNAPSHOT_KNOWS
from fleet.ps.journal.snapshots import why_no_end

CHUNK_BYTES = 1 << 20

Pace = Callable[[int], None]
"""Called after so many bytes were read; may take its time, or raise to end the reading."""


@dataclass
class Verified:
    """What was found in a folder."""

    last: int = 0
    """The number of the last record that is whole."""
    snapshot: int | None = None
    """The number of the record at which the snapshot begins."""
    num_sealed: int = 0
    """Files of rows that the snapshot links to."""
    num_bytes: int = 0
    damaged: dict[Path, str] = field(default_factory=dict)
    """Each file that is not what was written, with one line about it."""


def no_pace(_: int) -> None:
    """Read as fast as can be."""


def verify(folder: Path, pace: Pace = no_pace, least: int | None = None) -> Verified:
    """Read the journal of a server, its snapshot and the files that this links to.

    `least`: the record that must be there; None: the mark beside the journal says it. A file that goes while it is read
    is a FileNotFoundError: the server, which runs, has taken a snapshot.
    """
    found = Verified()

    def counted(num_bytes: int) -> None:
        found.num_bytes += num_bytes
        pace(num_bytes)

    if (why := damage_of_mark(folder)) is not None:
        found.damaged[folder / MARK_NAME] = why
    mark = read_mark(folder) if least is None and not found.damaged else None
    segments = segments_in(folder)  # before the snapshots: those that are taken meanwhile need less of them
    snapshots = snapshots_in(folder)
    positions = 0
    if snapshots:
        found.snapshot, path = snapshots[-1]
        positions = _verify_snapshot(path, found, counted)
        for run in sorted(runs_path(path).glob("*")):
            found.num_sealed += 1
            if (why := damage_of_rows(run, counted)) is not None:
                found.damaged[run] = why
    after = found.last = found.snapshot or 0
    last = _verify_segments(segments, found, after, counted) if segments else after
    found.last = max(found.last, last)
    wanted, who = max(positions, after), SNAPSHOT_KNOWS
    if (noted := least if least is not None else mark.least if mark is not None else 0) > wanted:
        wanted, who = noted, f"{folder / MARK_NAME} knows of"
    if last < wanted and not any(path in found.damaged for _, path in segments):
        where = segments[-1][1] if segments else folder
        text = f"{where} ends with record {last}, but {who} record {wanted}: the end of the journal is missing"
        found.damaged[where] = text
    return found


def damage_of_rows(path: Path, pace: Pace = no_pace) -> str | None:
    """What is wrong with a sealed file of rows, in one line; None if nothing is."""
    try:
        check, done, has_more = _native.RunCheck(str(path)), 0, True
        while has_more:
            has_more = check.next(CHUNK_BYTES)
            pace(check.done_bytes - done)
            done = check.done_bytes
    except OSError as error:
        if not path.exists():
            raise FileNotFoundError(error.errno, error.strerror) from None
        return error.strerror or repr(error)
    return None


def _verify_segments(segments: list[tuple[int, Path]], found: Verified, after: int, pace: Pace) -> int:
    """Read the segments of a journal; the last record that is whole."""
    last: int | None = None
    for index, (first, path) in enumerate(segments):
        following = segments[index + 1][0] if index + 1 < len(segments) else None
        if last is None and first > after + 1:
            found.damaged[path] = f"{path} begins with record {first}, and the file before it is missing"
        scan, why = _scan(path, pace)
        if why is None and scan.num_records and (scan.first != first or not scan.is_in_order):
            why = str(damaged(path, 0, "its records are not those that its name says, in their order"))
        if why is None and following is not None and (not scan.is_between or scan.last != following - 1):
            why = f"{path} ends with record {scan.last}, and {segments[index + 1][1].name} begins with {following}"
        if why is not None:
            found.damaged[path] = why
            break
        last = scan.last if scan.num_records else first - 1
    return last or 0


def _verify_snapshot(path: Path, found: Verified, pace: Pace) -> int:
    """Read a snapshot; the last record that it has parts of."""
    scan, why = _scan(path, pace)
    data = view_of(path)
    if why is None and not (scan.num_records and scan.is_between):
        why = str(damaged(path, scan.end, "the file ends before the snapshot does"))
    if why is None:
        end = read_one(path, data, scan.last_begin)
        told = why_no_end(path, end, scan.num_records - 1, scan.chain, len(data))
        if end.kind is not Kind.END or told is not None:
            why = str(damaged(path, end.begin, told or "the file ends before the snapshot does"))
    if why is not None:
        found.damaged[path] = why
        return 0
    return scan.most


def _scan(path: Path, pace: Pace) -> tuple[_native.RecordScan, str | None]:
    """Read a file of records past the system's cache; what is wrong with it, in one line, if something is.

    An end inside a record is left to the caller, unless the record stands there whole and is wrong.
    """
    scan, buffer = _native.RecordScan(), memoryview(bytearray(CHUNK_BYTES))
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        while count := os.readv(file, [buffer]):
            if not scan.take(buffer[:count]):
                return scan, _why_wrong(path, scan.end)
            pace(count)
    except OSError as error:
        return scan, f"{path} cannot be read: {error.strerror or error}; bring the file back"
    finally:
        os.close(file)
    return scan, None


def _why_wrong(path: Path, begin: int) -> str | None:
    """What a recovery would say of the record that begins here; None if nobody has finished writing it."""
    try:
        read_one(path, view_of(path), begin)
    except TornError:
        return None
    except JournalError as error:
        return str(error)
    return str(damaged(path, begin, "it was read once as it was written, and once otherwise"))
