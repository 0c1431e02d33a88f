"""A gate around a server's state: many threads change parts of it at once, or one has all of it to itself."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleet.errors import CommunicationError


class StateGate:
    """Changes are made inside `open`, by many threads at once; inside `closed` there are none.

    A thread that is inside must not enter again.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._num_inside = 0
        self._num_closing = 0
        self._is_closed = False
        self.patience_s: float | None = None
        """While the gate stays closed for long: how long a call waits before it is told to come again."""
        self.refusal: Callable[[], None] | None = None
        """Called on the way in; raises if nobody may enter any more."""
        self.closed = _Closed(self)
        """`with gate.closed:` waits until all have left, and lets nobody in."""

    @property
    def is_closing(self) -> bool:
        """Whether somebody has closed the gate, or is about to: whoever comes in would wait."""
        return self._num_closing > 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Enter beside others; waits while somebody has closed the gate, or is about to."""
        with self._change:
            while self._num_closing:
                if not self._change.wait(self.patience_s) and self.patience_s is not None:
                    raise _held_up()
            if self.refusal is not None:
                self.refusal()
            self._num_inside += 1
        try:
            yield
        finally:
            with self._change:
                self._num_inside -= 1
                if not self._num_inside and self._num_closing:
                    self._change.notify_all()

    def _close(self) -> None:
        with self._change:
            self._num_closing += 1
            while self._num_inside or self._is_closed:
                if not self._change.wait(self.patience_s) and self._is_closed and self.patience_s is not None:
                    self._num_closing -= 1
                    self._change.notify_all()
                    raise _held_up()
            self._is_closed = True

    def _reopen(self) -> None:
        with self._change:
            self._num_closing -= 1
            self._is_closed = False
            self._change.notify_all()


def _held_up() -> CommunicationError:
    error = CommunicationError("its rows move to other servers; it answers when they have")
    error.retryable = True
    return error


class _Closed:
    """The gate while it is closed."""

    def __init__(self, gate: StateGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate._close()
        if self._gate.refusal is not None:
            try:
                self._gate.refusal()
            except BaseException:
                self._gate._reopen()
                raise

    def __exit__(self, *_: object) -> None:
        self._gate._reopen()
