"""What this process records of a trace: spans, each with its thread, begin and end in ns of CLOCK_MONOTONIC.

A worker records from the end of the step before the first one to the end of the last one, and marks the calls that it
makes meanwhile. A server records what it does for calls that are marked, and need not know of steps. Whoever has a span
to tell looks at a flag first; nothing else is paid for by a job that is not traced.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from fleet.observe.tracing.window import Window

MOST_EVENTS = 1_000_000
"""How many spans of one process are kept; what comes after is counted and left out."""

Event = list[Any]
"""A line of the file, by its first word: see `trace_files`."""


class Tracer:
    """Keeps the spans of one process, which may come from any thread."""

    def __init__(self) -> None:
        self.is_armed = False
        """Whether this process is to record anything at all."""
        self.is_on = False
        """Whether the steps that are wanted are being made now, by this worker."""
        self.window: Window | None = None
        self.step = 0
        """The step that this worker is making."""
        self.num_lost = 0
        self.is_over = False
        """Whether the last step is behind this worker."""
        self._num_events = 0
        self._events: deque[Event] = deque()
        self._began_ns = 0
        self._opened_ns = 0
        self._threads: dict[int, str] = {}

    def arm(self, window: Window, num_steps: int = 0) -> None:
        """Record these steps; this worker has made `num_steps`."""
        self.window, self.is_armed, self.is_over = window, True, False
        self.after_step(num_steps)

    def after_step(self, num_steps: int) -> None:
        """A worker has made so many steps: note the last one, and begin or end to record."""
        if self.window is None or self.is_over:
            return
        now = time.monotonic_ns()
        if self.is_on:
            self.span("step", self._began_ns, now, {"step": num_steps})
        self.step = num_steps + 1
        self._began_ns = now
        if self.step == self.window.first or not self._opened_ns:
            self._opened_ns = now
        self.is_on = self.window.first <= self.step <= self.window.last
        self.is_over = self.step > self.window.last

    def add(self, name: str, begin_s: float, end_s: float, about: Mapping[str, Any] | None = None) -> None:
        """Keep a span of this thread, whose times are those of `time.perf_counter`; the caller has looked at a flag."""
        self.span(name, int(begin_s * 1e9), int(end_s * 1e9), about)

    def span(self, name: str, begin_ns: int, end_ns: int, about: Mapping[str, Any] | None = None) -> None:
        """The same in ns, of `time.monotonic_ns`: on Linux these are one clock."""
        # What began before the first step that is wanted begins with it; of a server, no step is known.
        self.keep(["span", name, self.thread(), max(begin_ns, self._opened_ns), end_ns, dict(about or {})])

    def keep(self, event: Event) -> None:
        """Keep an event that is whole."""
        if self._num_events >= MOST_EVENTS:
            self.num_lost += 1
            return
        self._num_events += 1
        self._events.append(event)

    def thread(self) -> int:
        """The caller's thread, as Linux numbers it; its name is noted."""
        number = threading.get_native_id()
        if number not in self._threads:
            self._threads[number] = threading.current_thread().name
            self.keep(["thread", number, self._threads[number]])
        return number

    def take(self) -> list[Event]:
        """What was kept since the last call; one thread takes, others may be adding meanwhile."""
        return [self._events.popleft() for _ in range(len(self._events))]


tracer = Tracer()
"""The tracer of this process."""
