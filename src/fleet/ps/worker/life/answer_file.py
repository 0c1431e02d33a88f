"""What a worker was told in meetings with others, in a file of its own: its next life is told the same."""

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from fleet.errors import UsageError
from fleet.ps.journal.files import write_all


class AnswerFile:
    """Values by name, appended to a file when they are put. One process writes it; its next life reads it first.

    A line is a checksum and JSON. What a kill has left half written at the end is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._known: dict[str, Any] = {}
        if path.exists():
            self._open()

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def get(self, name: str) -> Any:
        """What was put under a name; None if nothing was."""
        return self._known.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep a value, of JSON's kinds, for this life and the next; UsageError, and nothing is kept, if it cannot."""
        text = json.dumps([name, value]).encode()
        file = self._open()
        end = os.fstat(file).st_size
        try:
            write_all(file, [b"%08x %s\n" % (zlib.crc32(text), text)])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(file, end)  # half a line would spoil the next one too
            raise UsageError(
                f"a worker of a durable job writes down what it is told, and cannot in {self.path}: "
                f"{error.strerror or error}; make room on that disk"
            ) from None
        self._known[name] = value

    def remove(self) -> None:
        """Delete the file: the job is over for this worker."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file, which stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise UsageError(
                    f"FLEET_DURABLE: cannot write {self.path}: {error.strerror}; give a folder that workers can write"
                ) from error
            self._read(self._file)
        return self._file

    def _read(self, file: int) -> None:
        data = self.path.read_bytes()
        end = 0
        while (stop := data.find(b"\n", end)) >= 0:
            crc, _, text = data[end:stop].partition(b" ")
            if crc != b"%08x" % zlib.crc32(text):
                break
            name, value = json.loads(text)
            self._known[name] = value
            end = stop + 1
        if end < len(data):
            os.ftruncate(file, end)
