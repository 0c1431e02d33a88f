"""Notes that the workers' watches leave for each other on a server: few, in memory, and lost when it dies."""

import logging
import threading
from collections.abc import Callable

from fleet.errors import UsageError
from fleet.observe.stall.words import StallOutcome
from fleet.ps.proto import ps_pb2

MAX_TEXT = 64 << 10
MAX_KEY = 200
MAX_BYTES = 64 << 20
"""The most bytes of all notes and their names; beyond that the oldest are forgotten."""

Act = ps_pb2.BoardRequest.Act
_log = logging.getLogger(__name__)


class BoardNotes:
    """The notes of one server, by name. Called from many threads; never waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: dict[str, str] = {}
        self._size = 0
        self._acts: dict[int, Callable[[str, ps_pb2.BoardRequest.Header], None]] = {
            Act.PUT: lambda key, header: self._put(key, header.text),
            Act.PUT_FIRST: lambda key, header: None if key in self._notes else self._put(key, header.text),
            Act.ADD: lambda key, header: self._put(key, str(int(self._notes.get(key, "0")) + header.number)),
        }

    def answer(self, header: ps_pb2.BoardRequest.Header) -> ps_pb2.BoardReply.Header:
        """Do what a watch asks for."""
        if len(header.text) > MAX_TEXT or any(len(key) > MAX_KEY for key in header.keys):
            raise UsageError(f"a note has up to {MAX_TEXT} letters, and its name up to {MAX_KEY}")
        act = self._acts.get(header.act)
        with self._lock:
            for key in header.keys if act is not None else ():
                try:
                    act(key, header)  # type: ignore[misc]
                except ValueError:
                    raise UsageError(f"{key} is no count but {self._notes[key]!r}; add to a count") from None
            found = {key: self._notes[key] for key in header.keys if key in self._notes}
        if header.act == Act.PUT and header.text and header.keys and header.keys[0].startswith("outcome/"):
            _log.error("%s", StallOutcome.from_json(header.text).text)
        return ps_pb2.BoardReply.Header(notes=found)

    def _put(self, key: str, text: str) -> None:
        self._forget(key)
        self._notes[key] = text
        self._size += len(key) + len(text)
        while self._size > MAX_BYTES:
            self._forget(next(iter(self._notes)))

    def _forget(self, key: str) -> None:
        if (text := self._notes.pop(key, None)) is not None:
            self._size -= len(key) + len(text)
