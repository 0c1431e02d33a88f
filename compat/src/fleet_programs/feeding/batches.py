"""One pass over a reader, in a thread that works ahead: a bounded queue whose two ends know of each other's end."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs

PATIENCE_S = 60.0
"""How long a consumer waits for a batch before it says so, and again each time."""

CLOSE_S = 5.0
"""How long `close` waits for the reader to give up the batch it is making."""


class Batches:
    """What a reader gives, made by a thread at most `capacity` batches ahead.

    Iterating ends with the reader, or raises what it raised, traceback and all. The thread ends then, or with `close`,
    or when nobody holds this object any more, or when the process ends.
    """

    def __init__(self, make: Callable[[], Iterable[Any]], capacity: int) -> None:
        self._line = _Line(capacity)
        thread = threading.Thread(target=_produce, args=(make, self._line), name="fleet-reader", daemon=True)
        thread.start()
        self._finish = weakref.finalize(self, _close, self._line, thread)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._line.get()
        except BaseException:
            self.close()
            raise

    @property
    def num_ready(self) -> int:
        """How many batches have been made and not been taken."""
        return len(self._line)

    def close(self) -> None:
        """End the thread; batches that were made already are let go."""
        self._finish()


def _close(line: _Line, thread: threading.Thread) -> None:
    line.close()
    if thread is threading.current_thread():
        return
    thread.join(CLOSE_S)
    if thread.is_alive():
        _log.warning("a reader still works on a batch %.0f s after it was closed; it ends after that", CLOSE_S)


class _Line:
    """The queue between the two threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[Any] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_over = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, batch: Any) -> bool:
        """Add a batch, when there is room; False once nobody wants it."""
        with self._changed:
            # Waits for the consumer, who may take any time, and ends with close().
            self._changed.wait_for(lambda: self._is_closed or len(self._waiting) < self._capacity)
            if not self._is_closed:
                self._waiting.append(batch)
                self._changed.notify_all()
            return not self._is_closed

    def end(self, error: BaseException | None) -> None:
        """No more batches, or an error instead of the next."""
        with self._changed:
            self._is_over, self._error = True, error
            self._changed.notify_all()

    def get(self) -> Any:
        """The next batch; StopIteration after the last."""
        begun = time.monotonic()
        with self._changed:
            while not self._changed.wait_for(lambda: self._waiting or self._is_over or self._is_closed, PATIENCE_S):
                _log.warning("a batch has been awaited from the reader for %.0f s", time.monotonic() - begun)
            if self._waiting:
                batch = self._waiting.popleft()
                self._changed.notify_all()
                return batch
            error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()


def _produce(make: Callable[[], Iterable[Any]], line: _Line) -> None:
    error: BaseException | None = None
    batches = None
    try:
        batches = iter(make())
        for batch in batches:
            if not line.put(batch):
                break
    except BaseException as raised:  # whatever it is, the consumer gets it
        error = raised
    finally:
        try:
            if (close := getattr(batches, "close", None)) is not None:
                close()  # what the reader has to clear up it clears up in its own thread
        except BaseException as raised:
            error = error or raised
        line.end(error)
