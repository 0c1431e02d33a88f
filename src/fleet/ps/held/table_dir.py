"""Where a server keeps the rows that its memory has no room for: a folder of its own, removed with the server.

What is in it means nothing to the next process: journals and checkpoints link to the files that they need.
"""

import fcntl
import os
import shutil
import threading
import weakref
from contextlib import suppress
from itertools import count
from pathlib import Path

from fleet import env
from fleet.errors import UsageError
from fleet.ps.held.applicable import raise_if_full

_numbers = count()
_making = threading.Lock()


class TableDir:
    """The folder of one server's tables; removed by `close`, or when nobody refers to it any more."""

    def __init__(self, server: int) -> None:
        """Removes what dead servers have left.

        UsageError if nobody said where, or nothing can be written there; NoRoomError while there is no room.
        """
        base = _base()
        try:
            with _making:
                base.mkdir(parents=True, exist_ok=True)
                _clear_left(base)
                lock = None
                while lock is None:
                    self.path = base / f"server-{server}-{os.getpid()}-{next(_numbers)}"
                    lock = _make(self.path)
        except OSError as error:
            raise_if_full(f"a server has no room for rows in {base}", error)
            raise UsageError(f"a server cannot keep rows in {base}: {error.strerror or error}") from None
        self.close = weakref.finalize(self, _remove, self.path, lock)

    def more(self) -> Path:
        """A new folder."""
        folder = self.path / f"more-{next(_numbers)}"
        folder.mkdir()
        return folder

    def of(self, table: int) -> Path:
        """The folder of one table."""
        return self.path / f"table-{table}"


def _make(folder: Path) -> int | None:
    """Make a folder and lock it; None if another server, which took it for one of the dead, has removed it before."""
    folder.mkdir(mode=0o700)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), (folder / "lock").stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _base() -> Path:
    if (given := env.FLEET_TABLE_DIR.get()) is not None:
        return Path(given)
    if (durable := env.FLEET_DURABLE.get()) is not None:
        return Path(durable) / "tables"
    raise UsageError(
        "a table has memory=..., and nobody said where this server keeps the rows beyond it; set FLEET_TABLE_DIR to a "
        "folder on a local disk"
    )


def _clear_left(base: Path) -> None:
    for folder in base.glob("server-*"):
        with suppress(OSError):  # another server may be doing the same
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is gone: its server may be about to begin
                shutil.rmtree(folder, ignore_errors=True)
            except BlockingIOError:
                pass  # its server lives
            finally:
                os.close(lock)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
