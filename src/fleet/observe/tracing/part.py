"""A part of a step, as a trace and torch.profiler show it, that no other figure counts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from fleet.observe.tracing import profiler
from fleet.observe.tracing.tracer import tracer


@contextmanager
def part(name: str) -> Iterator[None]:
    """The span of a block, or of a function that this decorates: `checkpoint`, `all_reduce`."""
    mark = profiler.begin(name)
    began = time.perf_counter() if tracer.is_on else 0.0
    try:
        yield
    finally:
        profiler.end(mark)
        if began and tracer.is_on:
            tracer.add(name, began, time.perf_counter())
