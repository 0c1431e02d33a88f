"""What a server that died has left of its journal: its segments in order, the last of them cut where a record tore."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from fleet.ps.journal.files import segments_in, view_of
from fleet.ps.journal.records import JournalError, JournalRecord, Kind, TornError, damaged, read

SNAPSHOT_KNOWS = "the snapshot has rows of"

_log = logging.getLogger(__name__)


def read_segments(
    folder: Path, after: int, owner: bytes | None, least: int = 0, why: str = ""
) -> Iterator[JournalRecord]:
    """Every record after number `after`, in order; JournalError if one is missing, damaged or of another server.

    `owner` is what the first record of every segment must say; None: what the first of them says. A record at the very
    end that nobody finished writing was not acknowledged: it is cut off. Record `least` must be there;
    `why` says who knows of it.
    """
    found = segments_in(folder)
    if found and least <= after:
        least, why = after, SNAPSHOT_KNOWS
    last = 0
    for index, (first, path) in enumerate(found):
        if index + 1 < len(found) and found[index + 1][0] <= after:
            continue  # the snapshot has all of it
        if last == 0 and first > after + 1:
            raise JournalError(
                f"{path} begins with record {first}, but the snapshot ends at {after}: a file between them is missing; "
                "bring it back, or begin anew from a checkpoint with an empty folder"
            )
        if last and first != last + 1:
            raise JournalError(f"records {last + 1} to {first - 1} are missing before {path}; bring their file back")
        last = first - 1
        for record in _records_of(path, first, is_last=index + 1 == len(found), least=least, why=why):
            if record.lsn != last + 1:
                raise damaged(path, record.begin, f"record {record.lsn} comes after record {last}")
            if record.lsn == first:
                owner = owner or record.parts[0].header
                if record.kind is not Kind.SEGMENT or record.parts[0].header != owner:
                    raise JournalError(f"{path} belongs to another server, or to another run of the job; remove it")
            last = record.lsn
            if record.lsn > after:
                yield record
    if (last if found else after) < least:
        raise _too_short(found[-1][1] if found else folder, last if found else after, least, why)


def _too_short(path: Path, last: int, least: int, why: str) -> JournalError:
    return JournalError(
        f"{path} ends with record {last}, but {why} record {least}: the end of the journal is missing; bring it back, "
        "or begin anew from a checkpoint with an empty folder"
    )


def _records_of(path: Path, first: int, *, is_last: bool, least: int, why: str) -> Iterator[JournalRecord]:
    data = view_of(path)
    end, last = 0, first - 1
    try:
        for record in read(path, data):
            end, last = record.end, record.lsn
            yield record
    except TornError as error:
        if not is_last:
            raise damaged(path, end, "the file ends inside a record, and others follow it") from None
        if last < least:
            raise _too_short(path, last, least, why) from None
        _log.warning("%s; nobody was told that it was written, and it is cut off", error)
        os.truncate(path, end)
        if not end:
            path.unlink()
