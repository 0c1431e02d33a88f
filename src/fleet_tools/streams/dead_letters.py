"""Records that cannot be read, kept in a file: a line of JSON for each, once, up to so many bytes."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import IO

from fleet.data.streams.contract import StreamRecord
from fleet.errors import UsageError

log = logging.getLogger(__name__)


class DeadLetters:
    """The file `worker-N.jsonl` of a folder. What former lives of any worker have written there is not written again.

    A line has `stream`, `position`, `time`, `why` and `record`, as text; bytes that are no UTF-8 are `\\\\xNN` in it.
    """

    def __init__(self, folder: str | os.PathLike[str], worker: int, most_bytes: int) -> None:
        self.path = Path(folder).expanduser() / f"worker-{worker}.jsonl"
        self._most_bytes, self._is_full = most_bytes, False
        self._known: set[tuple[str, int]] = set()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for other in self.path.parent.glob("worker-*.jsonl"):  # a partition may have had another worker
                if other != self.path:
                    with other.open("rb") as file:
                        self._read(file)
            with self.path.open("a+b") as file:
                file.seek(0)
                self._size = self._read(file)
                file.truncate(self._size)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"dead letters cannot be kept in {self.path} ({error}); give a folder that this worker can write, "
                "without files of others"
            ) from error

    def _read(self, file: IO[bytes]) -> int:
        """Note which records are in a file; how many bytes of it are whole lines."""
        size = 0
        for line in file:
            if not line.endswith(b"\n"):  # half written, by a worker that was killed or is at work
                break
            found = json.loads(line)
            self._known.add((found["stream"], found["position"]))
            size += len(line)
        return size

    def add(self, path: str, found: list[tuple[StreamRecord, str]]) -> None:
        """Write records of one partition, and why they cannot be read."""
        lines = []
        for record, why in found:
            if (path, record.position) in self._known:
                continue
            text = record.value.decode(errors="backslashreplace")
            letter = {"stream": path, "position": record.position, "time": record.time_s, "why": why, "record": text}
            line = json.dumps(letter).encode() + b"\n"
            if self._size + len(line) > self._most_bytes:
                if not self._is_full:
                    log.warning("%s is full: dead letters from now on are counted and not kept", self.path)
                self._is_full = True
                break
            self._known.add((path, record.position))
            self._size += len(line)
            lines.append(line)
        if lines:
            with self.path.open("ab") as file:
                file.write(b"".join(lines))
