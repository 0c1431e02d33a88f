"""Where the writing threads of all workers leave each other notes: the job's store, over a connection of its own.

For save number N of a checkpoint:

    N/folder        worker 0: where to write
    account/W       worker W: why it could not write, or in how many pieces account/W/0, account/W/1, ... say what it
                    wrote; the same keys for all saves, so that the store does not grow
    N/moved         counts files written, so that the others see that somebody is at work
    N/done          counts the workers that have given their account
    N/outcome       worker 0: empty when the checkpoint is there, otherwise what went wrong
    N/seen          counts the workers that know the outcome, or that there is no folder; worker 0, which may be the
                    store's host, waits for them
"""

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch.distributed as dist

from fleet.errors import CommunicationError, DeadlineError

T = TypeVar("T")

POLL_S = 0.05
CALL_LIMIT_S = 30.0
# In characters, of up to four bytes each: torch's store drops a client that sends more than 8 MiB at once.
MAX_NOTE = 1 << 20


class SaveStore:
    """Notes and counters that all workers see. Calls are made by one thread, which may wait for the store's host.

    They start no thread of their own, as those of a stall's watch do: that fails when the interpreter ends, and then
    the last save may still be under way.
    """

    def __init__(self, store: dist.Store, name: str) -> None:
        clone: Callable[[], dist.Store] | None = getattr(store, "clone", None)
        if clone is None:
            raise CommunicationError(
                f"a {type(store).__name__} of this torch cannot have a second connection, which saving in the "
                "background needs; start the job with fleetrun or torchrun"
            )
        self._host = store  # as long as somebody writes, the store that worker 0 hosts must not go
        self._store = dist.PrefixStore(f"checkpoint/{name}", clone())
        self._store.set_timeout(timedelta(seconds=CALL_LIMIT_S))
        while isinstance(store, dist.PrefixStore):
            store = store.underlying_store
        self._address = (store.host, store.port) if isinstance(store, dist.TCPStore) else None
        self._line: socket.socket | None = None

    @contextmanager
    def watching_host(self) -> Iterator[None]:
        """Inside, an idle connection shows whether the host has gone, so that a host that has is asked nothing.

        Asked, torch's client would print a page of C++ frames.
        """
        if self._address is None:
            yield
            return
        try:
            self._line = socket.create_connection(self._address, timeout=CALL_LIMIT_S)
        except OSError as error:
            raise CommunicationError(f"the job's store at {self._address[0]} does not answer: {error}") from error
        with self._line:
            self._line.setblocking(False)
            yield
        self._line = None

    def put(self, key: str, value: str) -> None:
        """Set a value; what stood there is replaced."""
        self._call(lambda: self._store.set(key, value))

    def put_long(self, key: str, text: str) -> int:
        """Put a text of any length; returns the number of its pieces."""
        pieces = [text[begin : begin + MAX_NOTE] for begin in range(0, len(text), MAX_NOTE)]
        for number, piece in enumerate(pieces):
            self.put(f"{key}/{number}", piece)
        return len(pieces)

    def get_long(self, key: str, num_pieces: int) -> str:
        """What `put_long` has put there, all of it."""
        pieces = [self.get(f"{key}/{number}") for number in range(num_pieces)]
        if None in pieces:
            raise CommunicationError(f"the job's store has lost a part of {key}")
        return "".join(filter(None, pieces))

    def get(self, key: str) -> str | None:
        """The value, or None while there is none."""
        return self.get_all([key]).get(key)

    def get_all(self, keys: Iterable[str]) -> dict[str, str]:
        """The values of the keys that have one."""
        return self._call(lambda: {key: self._store.get(key).decode() for key in keys if self._store.check([key])})

    def count(self, key: str, more: int) -> int:
        """Add to a counter and return what it says now."""
        return self._call(lambda: self._store.add(key, more))

    def wait_for(self, condition: Callable[[], bool], number: int, limit_s: float, what: Callable[[], str]) -> None:
        """Return when the condition holds; DeadlineError when for `limit_s` nobody has written a file."""
        moved, since = -1, time.monotonic()
        while not condition():
            if (now := self.count(f"{number}/moved", 0)) != moved:
                moved, since = now, time.monotonic()
            if time.monotonic() - since > limit_s:
                raise DeadlineError(f"waited {limit_s:g} s for {what()}")
            time.sleep(POLL_S)

    def _call(self, what: Callable[[], T]) -> T:
        try:
            if self._has_hung_up():
                raise CommunicationError("its host has closed the connection")
            return what()
        except Exception as error:
            raise CommunicationError(f"the job's store cannot be used: {str(error).splitlines()[0]}") from error

    def _has_hung_up(self) -> bool:
        if self._line is None:
            return False
        try:
            return self._line.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
