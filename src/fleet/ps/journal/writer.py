"""Appends records to a journal; when they are on the disk depends on the policy.

OS        the operating system has them: they survive the process, not a loss of power
INTERVAL  the disk has those that are older than a second
ALWAYS    the disk has a record before `append` returns; records that come at once share a write
"""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from fleet.errors import CommunicationError
from fleet.ps.journal.files import begin_write_out, reserve, segment_path, segments_in, sync_folder, write_all
from fleet.ps.journal.mark import MarkWriter, read_mark
from fleet.ps.journal.records import Body, Kind, RecordPart, encode_body, with_head

Policy = Literal["OS", "INTERVAL", "ALWAYS"]
_T = TypeVar("_T")

SEGMENT_BYTES = 64 << 20
INTERVAL_S = 1.0
WRITE_OUT_S = 0.05
"""How often the disk is told to begin with what is new, so that little is left when it must have everything."""

_log = logging.getLogger(__name__)


class JournalWriteError(CommunicationError):
    """A record that could not be written, for example because the disk is full; it may be sent again."""

    retryable = True


class Journal:
    """The journal of one server, open for writing. Safe to use from many threads."""

    def __init__(
        self,
        folder: Path,
        policy: Policy,
        last_lsn: int,
        owner: bytes,
        fault: Callable[[int], int | None] | None = None,
    ) -> None:
        """Begin a new segment after record `last_lsn`; `owner` is what it says about whose journal it is.

        `fault` is called before every write, with its size, and raises what a faulty disk would. If it returns a
        number, only so many bytes are written, and the process ends.
        """
        self.folder = folder
        self._policy = policy
        self._owner = owner
        self._fault = fault
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._lsn = last_lsn
        self._synced = 0
        self._file = -1
        self._first = 0
        """The first record of the segment that is written."""
        self._size = 0
        self._num_segments = 0
        self.num_bytes = 0
        """Written since the journal was opened."""
        self._failure: str | None = None
        self._is_told = True
        """Whether it was logged that nothing can be written; whoever opens the journal logs that itself."""
        self._is_closed = threading.Event()
        try:
            told = read_mark(folder)
            self._mark = MarkWriter(folder)
        except OSError as error:
            raise self._cannot(error.strerror or str(error)) from None
        try:
            if policy == "OS":
                self._synced = 0 if told is None else min(told.synced, last_lsn)
            else:  # a former life may have been killed before the disk had its last records
                self._sync_segments()
                self._forced(sync_folder, folder)
                self._synced = last_lsn
            with self._writing:
                self._begin()
        except BaseException:
            self._mark.close()
            raise
        self._thread: threading.Thread | None = None
        if policy != "OS":
            self._thread = threading.Thread(target=self._sync_now_and_then, name="fleet-sync", daemon=True)
            self._thread.start()

    @property
    def lsn(self) -> int:
        """The number of the last record."""
        return self._lsn

    @property
    def num_unsynced(self) -> int:
        """Records that the policy wants on the disk and that may not be there; 0 where it leaves that to the system."""
        return 0 if self._policy == "OS" else self._lsn - self._synced

    def append(self, kind: Kind, parts: Sequence[RecordPart]) -> int:
        """Write a record, and return its number when it is as safe as the policy says.

        JournalWriteError if it cannot be written; then it is not there, and another may be tried.
        """
        body = encode_body(parts)
        with self._writing:
            if self._size >= SEGMENT_BYTES:
                self._begin_segment()
            self._write(kind, body)
            lsn = self._lsn
        if self._policy == "ALWAYS":
            self._sync(lsn)
        return lsn

    @property
    def end(self) -> tuple[int, int]:
        """The segment that is written, by its first record, and how many bytes it has; 0: there is none."""
        with self._writing:
            return self._first, self._size

    def damage_of_end(self) -> dict[Path, str]:
        """The segment that is written, if it is gone or has more than was written, with a line about that."""
        with self._writing:
            if self._file < 0:
                return {}
            found, path = os.fstat(self._file), segment_path(self.folder, self._first)
            if not found.st_nlink:
                return {path: f"{path} is gone, and its records are in no other file"}
            more = found.st_size - self._size
            return {path: f"{path} has {more} bytes that nobody wrote"} if more > 0 else {}

    def readable(self, segment: int) -> tuple[int, int] | None:
        """How many bytes of a segment may be read, and which segment follows (0: none yet); None if it is not here."""
        with self._writing:
            if segment == self._first:
                return self._size, 0
            found = dict(segments_in(self.folder))
            if segment not in found:
                return None
            return found[segment].stat().st_size, min(first for first in (*found, self._first) if first > segment)

    def sync(self) -> None:
        """Return when the disk has every record; JournalWriteError if it takes them no more."""
        last = self._lsn
        self._sync_segments()
        self._note_synced(last)

    def roll(self) -> None:
        """Begin a new segment: a snapshot that is taken afterwards lets all others go."""
        with self._writing:
            self._begin_segment()

    def drop_before(self, lsn: int) -> None:
        """Remove the segments that hold nothing after record `lsn`."""
        found = segments_in(self.folder)
        for (_, path), (following, _) in pairwise(found):
            if following <= lsn + 1:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Write what is left to the disk and let the file go; calling it again changes nothing."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()
        with self._syncing, self._writing:
            if self._file >= 0:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
                    os.fdatasync(self._file)
                    if self._policy != "OS":  # with that one, closed segments may be under way
                        self._mark.write(self._lsn, self._lsn)
                os.close(self._file)
                self._file = -1
                self._mark.close()

    def _write(self, kind: Kind, body: Body) -> None:
        """Under the lock of writing."""
        self._put(with_head(self._lsn + 1, kind, body), self._lsn + 1)

    def _put(self, buffers: Sequence[Any], last_lsn: int) -> None:
        """Under the lock of writing."""
        if self._failure is not None:
            raise self._cannot(self._failure)
        if self._file < 0:
            raise CommunicationError("the server is stopping")
        size = sum(map(len, buffers))
        try:
            if self._fault is not None and (torn := self._fault(size)) is not None:
                write_all(self._file, [b"".join(buffers)[:torn]])
                os.kill(os.getpid(), signal.SIGKILL)
            if not os.fstat(self._file).st_nlink:
                self._failure = "somebody has deleted it"
                raise self._cannot(self._failure)
            write_all(self._file, buffers)
        except OSError as error:
            try:
                os.ftruncate(self._file, self._size)
            except OSError as worse:
                self._failure = f"{worse.strerror or worse}, after {error.strerror or error}"
            raise self._cannot(error.strerror or str(error)) from None
        self._is_told = False
        self._lsn = last_lsn
        self._size += size
        self.num_bytes += size
        self._mark.write(self._lsn, self._synced)

    def _cannot(self, why: str) -> JournalWriteError:
        text = (
            f"nothing can be changed on this server, which still answers pulls: its journal in {self.folder} cannot be "
            f"written ({why}); make room on that disk, or bring the folder back"
        )
        if not self._is_told:
            self._is_told = True
            _log.error("%s", text)
        return JournalWriteError(text)

    def _begin(self) -> None:
        """Begin to write, under the lock of writing."""
        self._begin_segment()

    def _begin_segment(self) -> None:
        """Under the lock of writing."""
        self._open_segment(self._lsn + 1, lambda: self._write(Kind.SEGMENT, encode_body([RecordPart(self._owner)])))

    def _open_segment(self, first: int, begin: Callable[[], None] = lambda: None) -> None:
        """Write to another segment from now on, which `begin` may fail to begin; under the lock of writing."""
        path = segment_path(self.folder, first)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._cannot(error.strerror or str(error)) from None
        former, former_first, size = self._file, self._first, self._size
        self._file, self._first, self._size = file, first, 0
        try:
            if self._policy == "INTERVAL":
                reserve(file, SEGMENT_BYTES)
            begin()
        except CommunicationError:
            os.close(file)
            path.unlink(missing_ok=True)
            self._file, self._first, self._size = former, former_first, size
            raise
        self._num_segments += 1
        if former >= 0:
            try:
                with contextlib.suppress(OSError):
                    os.ftruncate(former, size)  # gives back the room that it did not need
                if self._policy != "OS":
                    self._sync_file(former)
                    self._synced = max(self._synced, first - 1)
            finally:
                os.close(former)
        if self._policy != "OS":
            self._sync_file(file)
            self._mark.sync()
            self._forced(sync_folder, self.folder)
            if former < 0:
                self._forced(sync_folder, self.folder.parent)

    def _sync(self, lsn: int) -> None:
        """Wait until the disk has a record: whoever comes first writes for all who wait."""
        with self._syncing:
            if self._synced >= lsn:
                return
            with self._writing:
                if self._file < 0:
                    return
                last, file = self._lsn, os.dup(self._file)
            try:
                self._sync_file(file)
            finally:
                os.close(file)
            self._note_synced(last)

    def _sync_segments(self) -> None:
        """Sync every segment, also closed ones, which the policy OS does not sync."""
        for _, path in segments_in(self.folder):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as segment:
                self._sync_file(segment.fileno())

    def _note_synced(self, last: int) -> None:
        with self._writing:
            self._synced = max(self._synced, last)
            if self._file >= 0:
                self._mark.write(self._lsn, self._synced)

    def _sync_file(self, file: int) -> None:
        self._forced(os.fdatasync, file)

    def _forced(self, sync: Callable[[_T], None], what: _T) -> None:
        try:
            sync(what)
        except OSError as error:
            self._failure = f"the disk does not take what was written: {error.strerror or error}"
            raise self._cannot(self._failure) from None

    def _sync_now_and_then(self) -> None:
        """Sync every second, and begin to write out in between, or pushes would wait for a burst.

        Where each record is synced before it is answered, that leaves the mark.
        """
        begun, next_at = (0, 0), time.monotonic() + INTERVAL_S
        while not self._is_closed.wait(WRITE_OUT_S):
            if self._policy == "INTERVAL":
                begun = self._begin_write_out(*begun)
            if time.monotonic() < next_at:
                continue
            try:
                self._sync(self._lsn)
                self._mark.sync()
            except CommunicationError as error:  # the next append says it too
                _log.error("%s", error)
                return
            next_at = time.monotonic() + INTERVAL_S

    def _begin_write_out(self, segment: int, done: int) -> tuple[int, int]:
        """Begin to write out what follows byte `done` of a segment; the present segment, and how far that went."""
        with self._writing:
            if self._file < 0:
                return segment, done
            file, size, current = os.dup(self._file), self._size, self._num_segments
        try:
            first = done if current == segment else 0
            if size > first:
                begin_write_out(file, first, size - first)
        finally:
            os.close(file)
        return current, size
