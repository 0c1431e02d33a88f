"""Where a worker's time goes, and what it counts: by name, for benchmarks and reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_seconds: dict[str, float] = {}
_counts: dict[str, int] = {}


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Add the time of a block to a name: `route`, `pull`, `push`, `wait`, `dense`; of a cache `place`, `cache read`."""
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


def count(name: str, increment: int) -> None:
    """Add to a counter: `cache.hits`, `cache.misses`, `cache.refreshed`, `cache.evicted`, `cache.age_steps`.

    Of dense gradients that leave before their step: `ahead.sent_bytes`, `ahead.joined_bytes` (those that the step did
    not have to send again), `ahead.rests`.
    """
    with _lock:
        _counts[name] = _counts.get(name, 0) + increment


def raise_to(name: str, value: int) -> None:
    """Let a counter be at least this: `cache.oldest`."""
    with _lock:
        _counts[name] = max(_counts.get(name, 0), value)


def counts() -> dict[str, int]:
    """The counters so far, by name."""
    with _lock:
        return dict(_counts)
