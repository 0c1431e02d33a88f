"""Where a worker's time goes, and what it counts: by name, for benchmarks and reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleet.observe.metrics.registry import Sample, registry
from fleet.observe.metrics.steps import StepCount, steps
from fleet.observe.tracing import profiler
from fleet.observe.tracing.tracer import tracer
from fleet.ps.wire import traced
from fleet.ps.worker.parts import meters
from fleet.ps.worker.parts.contract import StepPart, Update

if TYPE_CHECKING:
    from fleet.ps.worker.asking.lookup import Lookup


_lock = threading.Lock()
_main = threading.main_thread().ident
_seconds: dict[str, float] = {}
_beside: dict[str, float] = {}
"""Seconds of threads other than the one that trains; `_seconds` counts them too."""
_counts: dict[str, int] = {}


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Add the time of a block to a name: `route`, `pull`, `push`, `wait`, `dense`; of a cache `place`, `cache read`."""
    mark = profiler.begin(name)
    started = time.perf_counter()
    try:
        yield
    finally:
        ended = time.perf_counter()
        elapsed = ended - started
        profiler.end(mark)
        if tracer.is_on:
            tracer.add(name, started, ended)
        with _lock:
            _seconds[name] = _seconds.get(name, 0.0) + elapsed
            if threading.get_ident() != _main:
                _beside[name] = _beside.get(name, 0.0) + elapsed


def snapshot() -> dict[str, float]:
    """Seconds so far, by name."""
    with _lock:
        return dict(_seconds)


def training_s() -> float:
    """Seconds so far, of all names together, of the thread that trains."""
    with _lock:
        return sum(_seconds.values()) - sum(_beside.values())


def read() -> Iterator[Sample]:
    """All of it, as samples for `fleet.observe.metrics`."""
    with _lock:
        seconds, beside, counted = dict(_seconds), dict(_beside), dict(_counts)
    for part, total in seconds.items():
        other = beside.get(part, 0.0)
        yield Sample("fleet_worker_part_seconds_total", max(0.0, total - other), {"part": part})
        if other:
            yield Sample("fleet_worker_beside_seconds_total", other, {"part": part})
    if ids := counted.get("ids"):
        yield Sample("fleet_worker_ids_total", ids)
        yield Sample("fleet_worker_keys_total", counted.get("keys", 0))
    for what in ("hits", "misses", "evicted"):
        if (rows := counted.get(f"cache.{what}")) is not None:
            yield Sample("fleet_worker_cache_rows_total", rows, {"what": what})


def count(name: str, increment: int) -> None:
    """Add to a counter: `cache.hits`, `cache.misses`, `cache.evicted`.

    Of dense gradients that leave before their step: `ahead.sent_bytes`, `ahead.joined_bytes` (those that the step did
    not have to send again), `ahead.rests`. Of batches `ids` and `keys`, by `routed`.
    """
    with _lock:
        _counts[name] = _counts.get(name, 0) + increment


def routed(num_ids: int, num_keys: int) -> None:
    """Count the ids of one table in one batch, without padding, and the distinct ones among them."""
    with _lock:
        _counts["ids"] = _counts.get("ids", 0) + num_ids
        _counts["keys"] = _counts.get("keys", 0) + num_keys


def counts() -> dict[str, int]:
    """The counters so far, by name."""
    with _lock:
        return dict(_counts)


class MeasuredSteps(StepPart):
    """Measures each step. It is around all other parts, whose time belongs to the step."""

    def __init__(self, count: StepCount) -> None:
        self._count = count
        steps.inside, steps.count = meters.training_s, count
        registry.remove(meters.read)
        registry.add(meters.read)
        traced.prepare()

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:  # noqa: ARG002
        steps.begin_step(is_new=is_new)

    def after_push(self, update: Update) -> None:  # noqa: ARG002
        steps.end_step(is_whole=self._count.is_whole)
