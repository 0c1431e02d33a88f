"""Where a worker's time goes: seconds by name, for benchmarks and reports. Costs a clock reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_seconds: dict[str, float] = {}


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Add the time of a block to a name: `route`, `pull`, `push`, `wait`, `dense`."""
    started = time.perf_counter()
    try:
        yield
    finally:
        elapsed = time.perf_counter() - started
        with _lock:
            _seconds[name] = _seconds.get(name, 0.0) + elapsed


def snapshot() -> dict[str, float]:
    """Seconds so far, by name."""
    with _lock:
        return dict(_seconds)
