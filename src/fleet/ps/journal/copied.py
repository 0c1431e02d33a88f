"""The journal of a copy: the very bytes of its server's, segment by segment, until the copy leads."""

import os
from collections.abc import Callable

from fleet.ps.journal.files import segments_in
from fleet.ps.journal.mark import MarkWriter
from fleet.ps.journal.writer import Journal


class CopiedJournal(Journal):
    """A journal that receives records, and has none of its own before `lead`."""

    def receive(self, segment: int, records: memoryview, last_lsn: int) -> None:
        """Append records of the server's journal, up to `last_lsn`, to this copy's, as safe as the policy says.

        JournalWriteError if they cannot be written; then none of them is there.
        """
        with self._writing:
            if segment != self._first:
                self._open_segment(segment)
            self._put([records], max(self._lsn, last_lsn))
        if self._policy == "ALWAYS":
            self._sync(self._lsn)

    def lead(self, owner: bytes) -> None:
        """Have records of its own from now on, in a segment of their own."""
        with self._writing:
            self._owner = owner
            self._begin_segment()

    def begin_anew(self, clear: Callable[[], None]) -> None:
        """Go on as the journal of a copy that has nothing; `clear` removes its files."""
        with self._writing:
            if self._file >= 0:
                os.close(self._file)
            self._file, self._first, self._size, self._lsn, self._synced = -1, 0, 0, 0, 0
            self._mark.close()
            clear()
            self._mark = MarkWriter(self.folder)

    def _begin(self) -> None:
        """Write on where a former life of this copy has ended."""
        if found := segments_in(self.folder):
            self._first, path = found[-1]
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._size = os.fstat(self._file).st_size
