"""The watches' way to each other: the job's store, over a connection of its own and with a limit on every call.

A store's client waits without limit for a host that is there but does not answer, and prints a page of C++ frames when
the host has gone. The first must not stop a watch, whose business is just such a host, and the second is no news at the
end of a job, where worker 0 may leave first. So each call runs in a short-lived thread, and a look at a connection that
nobody uses comes before it: that one is closed when the host goes.
"""

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch.distributed as dist

from fleet.errors import CommunicationError

T = TypeVar("T")

LIMIT_S = 3.0
RETRY_S = 0.05


class _NoThreadError(CommunicationError):
    """The interpreter ends, and some versions of Python start no thread then."""


class Mailbox:
    """Keys and values that all workers see. Every call raises CommunicationError if the store's host is silent."""

    def __init__(self, store: dist.Store, limit_s: float = LIMIT_S) -> None:
        clone: Callable[[], dist.Store] | None = getattr(store, "clone", None)
        if clone is None:
            raise CommunicationError(f"a {type(store).__name__} of this torch cannot have a second connection")
        self._store = dist.PrefixStore("stall", clone())
        self._line = _open_line(store)
        self._limit_s = limit_s
        self._unanswered: threading.Thread | None = None
        self._turn = threading.Lock()

    def close(self) -> None:
        """Nothing may be called afterwards."""
        if self._line is not None:
            self._line.close()

    def put(self, key: str, value: str, limit_s: float | None = None) -> None:
        """Set a value; what stood there is replaced."""
        self._call(lambda: self._store.set(key, value), limit_s)

    def put_last(self, key: str, value: str) -> None:
        """`put`, for the end of the process: where no thread can start any more it has no limit."""
        try:
            self.put(key, value)
        except _NoThreadError:
            try:
                self._refuse_if_hung_up()
                self._store.set(key, value)
            except Exception as error:
                raise _unusable(error) from error

    def put_first(self, key: str, value: str) -> str:
        """Put a value unless somebody has; return the one that stands."""
        return self._call(lambda: self._store.compare_set(key, "", value)).decode()

    def get(self, key: str) -> str | None:
        """The value, or None while there is none."""
        return self.get_all([key]).get(key)

    def get_all(self, keys: Iterable[str]) -> dict[str, str]:
        """The values of the keys that have one."""

        def look() -> dict[str, str]:
            return {key: self._store.get(key).decode() for key in keys if self._store.check([key])}

        return self._call(look)

    def wait(self, keys: Sequence[str], limit_s: float) -> None:
        """Return when all keys have a value, or the time is up."""
        deadline = time.monotonic() + limit_s
        while not self._call(lambda: self._store.check(list(keys))) and time.monotonic() < deadline:
            time.sleep(RETRY_S)

    def wait_last(self, keys: Sequence[str], limit_s: float) -> None:
        """`wait`, for the end of the process that hosts the store: it needs no thread, and its host answers."""
        deadline = time.monotonic() + limit_s
        while not self._store.check(list(keys)) and time.monotonic() < deadline:
            time.sleep(RETRY_S)

    def count(self, key: str, more: int) -> int:
        """Add to a counter and return what it says now."""
        return self._call(lambda: self._store.add(key, more))

    def _call(self, what: Callable[[], T], limit_s: float | None = None) -> T:
        with self._turn:
            return self._call_in_turn(what, self._limit_s if limit_s is None else limit_s)

    def _call_in_turn(self, what: Callable[[], T], limit_s: float) -> T:
        if self._unanswered is not None and self._unanswered.is_alive():
            raise CommunicationError("the store's host still owes an answer to an earlier call")
        answers: queue.SimpleQueue[T | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                self._refuse_if_hung_up()
                answers.put(what())
            except Exception as error:  # of whatever kind: it is raised where the answer is awaited
                answers.put(error)

        thread = self._unanswered = threading.Thread(target=ask, name="fleet-stall-mail", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise _NoThreadError(f"the store cannot be asked: {error}") from error
        try:
            answer = answers.get(timeout=limit_s)
        except queue.Empty:
            raise CommunicationError(f"the store's host has not answered for {limit_s:.0f} s") from None
        if isinstance(answer, Exception):
            raise _unusable(answer) from answer
        return answer

    def _refuse_if_hung_up(self) -> None:
        if self._line is None:
            return
        try:
            closed = self._line.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            closed = False
        if closed:
            raise ConnectionError("its host has closed the connection")


def _unusable(error: Exception) -> CommunicationError:
    return CommunicationError(f"the store cannot be used: {(str(error) or repr(error)).splitlines()[0]}")


def _open_line(store: dist.Store) -> socket.socket | None:
    """A connection to the store's host; None for a store that has no host."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if not isinstance(store, dist.TCPStore):
        return None
    line = socket.create_connection((store.host, store.port), timeout=LIMIT_S)
    line.setblocking(False)
    return line
