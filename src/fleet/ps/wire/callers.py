"""Whether the caller of a call is still there: a service that waits on its behalf stops when it has gone.

The network makes a `Caller` for each call, puts it around the service (`answering`), and says `leave` when the call was
cancelled, its time is over or its connection was lost. The service waits by `wait_for`, and needs to know no network:
in a process without one the caller is always there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleet.errors import CommunicationError
from fleet.ps.job.patience import longest_wait_s
from fleet.ps.wire.budget import SMALL_BYTES, MemoryAccount

_calls = threading.local()


class Caller:
    """Who waits for the answer to one call."""

    def __init__(self, departures: Departures | None = None, account: MemoryAccount | None = None) -> None:
        self.is_gone = False
        self.account = account
        """The memory that its messages hold, if somebody counts it."""
        self._departures = departures
        self._lock = threading.Lock()
        self._waits_on: threading.Condition | None = None

    def leave(self) -> None:
        """Note that nobody waits for the answer any more. Called from any thread; never blocks for long."""
        with self._lock:
            self.is_gone = True
            changed = self._waits_on
        if changed is not None and self._departures is not None:
            self._departures.tell(changed)

    @contextmanager
    def waiting_on(self, changed: threading.Condition) -> Iterator[None]:
        """Within this, `changed` is notified when the caller leaves."""
        with self._lock:
            self._waits_on = changed
        try:
            yield
        finally:
            with self._lock:
                self._waits_on = None


_ALWAYS_THERE = Caller()


@contextmanager
def answering(caller: Caller) -> Iterator[None]:
    """Within this, `wait_for` in this thread waits on behalf of `caller`."""
    before = getattr(_calls, "caller", None)
    _calls.caller = caller
    try:
        yield
    finally:
        _calls.caller = before


def reserve(num_bytes: int) -> None:
    """Count what an answer takes before it is made; OverBudgetError if there is no room for it now."""
    if (account := _caller().account) is not None and num_bytes > SMALL_BYTES:
        account.hold(num_bytes)


def _caller() -> Caller:
    return getattr(_calls, "caller", None) or _ALWAYS_THERE


def wait_for(changed: threading.Condition, is_over: Callable[[], bool], timeout_s: float) -> bool:
    """As `changed.wait_for`, for a call: CommunicationError as soon as its caller has gone.

    However long the caller would wait, this waits no longer than `patience.longest_wait_s()`.
    """
    caller = _caller()
    if caller.account is not None:
        caller.account.let_go()  # others must find room for what this one waits for
    with caller.waiting_on(changed):
        is_met = changed.wait_for(lambda: caller.is_gone or is_over(), min(timeout_s, longest_wait_s()))
    if caller.is_gone:
        raise CommunicationError("the caller has gone")  # nobody hears this
    return is_met


class Departures:
    """Wakes threads that wait on behalf of callers that have gone, many at once.

    Whoever notices that a caller has gone must not block, and a thousand may go in one moment: each condition is
    notified by a thread of its own here, once for all that left while it was being taken.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._told: set[threading.Condition] = set()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="fleet-departures", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def tell(self, changed: threading.Condition) -> None:
        """Have all who wait on `changed` look again, soon."""
        with self._change:
            self._told.add(changed)
            self._change.notify()

    def close(self) -> None:
        """End the thread; calling it again, or without a start, changes nothing."""
        with self._change:
            self._is_closed = True
            self._change.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._told or self._is_closed)
                told, self._told = self._told, set()
                if self._is_closed:
                    return
            for changed in told:
                with changed:
                    changed.notify_all()
