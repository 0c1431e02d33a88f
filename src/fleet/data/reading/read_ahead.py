"""Threads that work ahead on a row of items, whose results come in the order of the items."""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MOST_BYTES_AHEAD = 256 << 20
# How long a result may take before somebody is told what is waited for.
TELL_AFTER_S = 60.0


class ReadAhead(Generic[T, R]):
    """Iterate: each item with what `read` makes of it, in order. An error is raised in its place and ends the rest.

    At most `most_ahead` items, and of these no more than `most_bytes` by `size_of`, are read and not handed over; one
    may be as large as it likes. Threads start with the first item that is asked for, in the process that asks. `close`
    ends them, and so does the end of the interpreter, which a thread inside native code would not survive.
    """

    def __init__(
        self,
        items: Iterator[T],
        read: Callable[[T], R],
        *,
        num_threads: int,
        most_ahead: int,
        size_of: Callable[[T], int] = lambda _: 0,
        name_of: Callable[[T], str] = str,
        most_bytes: int = MOST_BYTES_AHEAD,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        """`stop` is called when this is closed: it lets a thread go that waits for the next item."""
        self._items = items
        self._stop = stop
        self._read = read
        self._size_of, self._name_of = size_of, name_of
        self._most_ahead, self._most_bytes = most_ahead, most_bytes
        self._taking = threading.Lock()
        self._changed = threading.Condition()
        self._under_way: dict[int, T] = {}
        """Items that were taken and not handed over, by their number."""
        self._results: dict[int, tuple[R | None, BaseException | None]] = {}
        self._num_taken = self._num_given = 0
        self._is_over = self._is_closed = False
        self._process: int | None = None
        self._threads = [
            threading.Thread(target=self._run, name=f"fleet-files-{number}", daemon=True)
            for number in range(num_threads)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads, and return when they have ended."""
        if self._process != os.getpid():  # not begun, or forked from a process that has
            return
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._stop()
        for thread in self._threads:
            thread.join()
        self._process = None
        self._results.clear()
        atexit.unregister(self.close)

    def __iter__(self) -> Iterator[tuple[T, R]]:
        self._process = os.getpid()
        atexit.register(self.close)
        for thread in self._threads:
            thread.start()
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> tuple[T, R] | None:
        number = self._num_given
        with self._changed:

            def is_known() -> bool:
                return number in self._results or self._is_closed or (self._is_over and number >= self._num_taken)

            waited_s = 0.0
            while not self._changed.wait_for(is_known, TELL_AFTER_S):
                waited_s += TELL_AFTER_S
                if number in self._under_way:
                    log.warning("waiting for %s for %.0f s", self._name_of(self._under_way[number]), waited_s)
            if number not in self._results:
                return None
            result, error = self._results.pop(number)
            item = self._under_way.pop(number, None)
            self._num_given += 1
            self._changed.notify_all()
        if error is not None:
            raise error
        return item, result  # type: ignore[return-value]  # only an item that could not be had has none

    def _has_room(self) -> bool:
        under_way = self._under_way.values()
        return not under_way or (
            len(under_way) < self._most_ahead and sum(map(self._size_of, under_way)) < self._most_bytes
        )

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            number, item = taken
            try:
                self._put(number, self._read(item), None)
            except BaseException as error:
                self._put(number, None, error)

    def _take(self) -> tuple[int, T] | None:
        with self._taking:  # not the lock that results need: the next item may have to be asked for
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._is_over or self._has_room())
                if self._is_closed or self._is_over:
                    return None
            item: Any = None
            try:
                item = next(self._items)
            except StopIteration:
                self._end()
                return None
            except BaseException as error:
                self._put(self._num_taken, None, error)
                self._end()
                return None
            with self._changed:
                number = self._num_taken
                self._num_taken += 1
                self._under_way[number] = item
            return number, item

    def _put(self, number: int, result: R | None, error: BaseException | None) -> None:
        with self._changed:
            self._results[number] = result, error
            self._is_over |= error is not None
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
