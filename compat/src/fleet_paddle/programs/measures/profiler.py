"""`profiler`: where the time of a loop goes, as a table of the operations that ran, over torch's own.

    with profiler("CPU", sorted_key="total", profile_path="trace.json"):
        for batch in batches:
            exe.run(feed=batch)

An operation that calls others stands in the table for them, unless `tracer_option` asks for all. The file is a trace
that chrome://tracing and Perfetto show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.profiler import profile

from fleet.errors import NotReadyError, UsageError

STATES = ("CPU", "GPU", "All")
KEYS = (None, "default", "calls", "total", "max", "min", "ave")
OPTIONS = ("Default", "OpDetail", "AllOpDetail")


@dataclass
class _Row:
    """How often an operation ran and how long that took, in milliseconds."""

    name: str
    calls: int
    total: float
    max: float
    min: float

    @property
    def ave(self) -> float:
        return self.total / self.calls


@dataclass
class _Running:
    state: str
    shows_all: bool
    torch: Any


_running: list[_Running] = []


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begin to measure the CPU, the GPU or both; `stop_profiler` prints what was found."""
    _one_of("state", state, STATES)
    _one_of("tracer_option", tracer_option, OPTIONS)
    if state == "GPU" and not torch.cuda.is_available():
        raise UsageError("start_profiler: state 'GPU' needs a GPU, and torch sees none; use 'CPU'")
    if _running:
        raise UsageError("start_profiler: it runs already; call stop_profiler() first")
    _begin(state, tracer_option != "Default")


def stop_profiler(sorted_key: str | None = None, profile_path: str | os.PathLike[str] | None = None) -> None:
    """End measuring and print the table, sorted by `sorted_key`; with `profile_path` also write the trace there."""
    _one_of("sorted_key", sorted_key, KEYS)
    if not _running:
        raise NotReadyError("stop_profiler: nothing is measured; call start_profiler() first")
    running = _running.pop()
    running.torch.__exit__(None, None, None)
    print(_table(_rows(running), sorted_key), flush=True)
    if profile_path is not None:
        running.torch.export_chrome_trace(os.fspath(profile_path))


def reset_profiler() -> None:
    """Forget what was measured so far, and go on."""
    if not _running:
        raise NotReadyError("reset_profiler: nothing is measured; call start_profiler() first")
    running = _running.pop()
    running.torch.__exit__(None, None, None)
    _begin(running.state, running.shows_all)


@contextmanager
def profiler(
    state: str,
    sorted_key: str | None = None,
    profile_path: str | os.PathLike[str] | None = None,
    tracer_option: str = "Default",
) -> Iterator[None]:
    """Measure what runs inside; see `start_profiler` and `stop_profiler`."""
    _one_of("sorted_key", sorted_key, KEYS)
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def _begin(state: str, shows_all: bool) -> None:
    has_gpu = state != "CPU" and torch.cuda.is_available()
    # What only a GPU needs takes two seconds to begin with.
    measured = profile(use_device="cuda" if has_gpu else None, use_kineto=has_gpu)
    measured.__enter__()
    _running.append(_Running(state, shows_all, measured))


def _rows(running: _Running) -> list[_Row]:
    rows: dict[str, _Row] = {}
    for event in running.torch.function_events:
        if event.cpu_parent is not None and not running.shows_all:
            continue
        taken = (event.device_time_total if running.state == "GPU" else event.time_range.elapsed_us()) / 1000
        row = rows.setdefault(event.name, _Row(event.name, 0, 0.0, 0.0, taken))
        row.calls += 1
        row.total += taken
        row.max, row.min = max(row.max, taken), min(row.min, taken)
    return list(rows.values())


def _table(rows: list[_Row], sorted_key: str | None) -> str:
    if sorted_key not in (None, "default"):
        rows = sorted(rows, key=lambda row: getattr(row, sorted_key), reverse=True)
    whole = sum(row.total for row in rows) or 1.0
    width = max([20, *(len(row.name) for row in rows)])
    lines = [f"{'Event':<{width}} {'Calls':>8} {'Total':>12} {'Min.':>12} {'Max.':>12} {'Ave.':>12} {'Ratio':>8}  (ms)"]
    lines += [
        f"{row.name:<{width}} {row.calls:>8} {row.total:>12.6g} {row.min:>12.6g} {row.max:>12.6g} {row.ave:>12.6g} "
        f"{row.total / whole:>8.4f}"
        for row in rows
    ]
    return "\n".join(lines)


def _one_of(name: str, value: object, known: tuple[Any, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")
