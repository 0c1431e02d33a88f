"""A server reads again, now and then and slowly, what it has on its disk, so that damage is known before it is needed.

That is its journal, its snapshot, and the sealed files of rows that the snapshot links to or that tables use. What the
server still knows it writes anew, as a snapshot. Where rows are lost that it does not know, its copy on another machine
takes its place; a copy is filled again by its server. Without a copy such a file is named, and no snapshot links to it.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from fleet import env
from fleet.errors import CheckpointError
from fleet.observe.metrics import events
from fleet.ps.journal.verify import damage_of_rows, verify
from fleet.ps.journal.writer import Journal

FIRST_S, REST_S = 60.0, 600.0
"""How long a server waits before it looks for the first time, and after each time."""
SOON_S = 5.0
"""The same where a snapshot was taken meanwhile."""
RATE_MB = 8
_IDLE = 19  # the least that a thread may have of a processor others want

_log = logging.getLogger(__name__)


class _StoppedError(Exception):
    """The server ends while something is read."""


class Scrub:
    """The thread that reads, and what it has found."""

    def __init__(
        self,
        journal: Journal,
        files_in_use: Callable[[], Iterable[Path]],
        mend: Callable[[bool, str], str],
    ) -> None:
        """`mend` is called for each damaged file.

        It gets whether the file has rows that the server does not know, and what is wrong; it returns what has been put
        in the place of that, "" if there is nothing.
        """
        self._journal, self._folder = journal, journal.folder
        self._files_in_use, self._mend = files_in_use, mend
        rate = env.FLEET_SCRUB_RATE.get()
        self._rate = (RATE_MB if rate is None else rate) * 1e6
        self._is_over = threading.Event()
        self._woken = threading.Event()
        self._is_hurried = False
        """Whether somebody waits for the next look, which is then as fast as the disk."""
        self.num_bytes = 0
        """Read so far."""
        self.damaged: dict[Path, str] = {}
        """The files that were not what was written when they were read last, with a line about each."""
        self._lost: dict[tuple[int, int], str] = {}
        """Damaged files with rows that are nowhere else, by device and number."""
        self._thread = threading.Thread(target=self._run, name="fleet-scrub", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._is_over.set()
        self._woken.set()
        self._thread.join()

    def hurry(self) -> None:
        """Look at once: a copy cannot be filled from what is there. Also where the rate is 0."""
        self._woken.set()
        self._is_hurried = True

    def refuse_damaged(self, links: Iterable[Path]) -> None:
        """CheckpointError if a file of rows is known to be damaged: what links to it would be worth nothing."""
        for link in links:
            if (why := self._lost.get(_identity(link))) is not None:
                raise CheckpointError(f"{why}; no snapshot is taken of it: load the last checkpoint")

    def _mended(self, path: Path, why: str) -> str:
        """What was put in the place of a damaged file; "" if nothing was."""
        try:
            return self._mend(_identity(path) in self._lost, why)
        except Exception as error:  # of any kind, such as a full disk: it is tried again next time
            _log.warning("%s; and nothing could be put in its place: %s", why, error)
            return ""

    def look(self) -> None:
        """Read everything once, and do something about what is damaged."""
        found = self._damage()
        if found:
            again = self._damage()  # it may have been changed while it was read
            found = {path: why for path, why in found.items() if path in again}
        in_use = {_identity(path) for path in self._files_in_use()}
        self._lost = {_identity(path): why for path, why in found.items() if _identity(path) in in_use}
        for path, why in found.items():
            if path not in self.damaged:
                _log.error("%s", why)
                events.note("damage", why)
        self.damaged, instead = found, ""
        for path, why in found.items():
            if path.exists() or not instead:  # or else it has gone with the one before
                instead = self._mended(path, why)
            if not instead:
                continue
            _log.warning("%s: %s", path, instead)
            events.note("damage", f"{path}: {instead}")
            self.damaged = {other: why for other, why in self.damaged.items() if other != path}
            self._lost.pop(_identity(path), None)

    def _damage(self) -> dict[Path, str]:
        found = self._journal.damage_of_end() | verify(self._folder, self._pace, self._journal.lsn).damaged
        known = {_identity(path) for path in self._folder.glob("*/*")}
        for path in self._files_in_use():
            with suppress(FileNotFoundError):  # it was merged with others
                if _identity(path) not in known and (why := damage_of_rows(path, self._pace)) is not None:
                    found[path] = why
        return found

    def _run(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _IDLE)
        pause_s = FIRST_S
        while True:
            self._woken.wait(pause_s if self._rate else None)
            self._woken.clear()
            pause_s = REST_S
            if self._is_over.is_set():
                return
            try:
                self.look()
            except _StoppedError:
                return
            except FileNotFoundError:
                pause_s = SOON_S
            except Exception as error:  # of any kind: the next look may come to its end
                _log.warning("what is in %s could not be read to its end: %s", self._folder, str(error) or repr(error))
            if self._is_hurried and self._is_over.wait(SOON_S):  # a copy asks again and again
                return
            self._is_hurried = self._woken.is_set()

    def _pace(self, num_bytes: int) -> None:
        self.num_bytes += num_bytes
        if self._is_over.wait(0.0 if self._is_hurried or not self._rate else num_bytes / self._rate):
            raise _StoppedError


def _identity(path: Path) -> tuple[int, int]:
    """What two names of one file have in common; (0, 0) where there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino
