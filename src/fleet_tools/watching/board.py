"""Curves and histograms for TensorBoard, written by the launcher from the figures that processes write anyway.

Each worker and each server is a run: DIR/worker.0, DIR/server.0. The step of a point is the worker's number of steps;
of a server, its version. Only TensorBoard's messages and its record format are used: no torch, no TensorFlow.
"""

import contextlib
import importlib
import logging
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet import env
from fleet.errors import UsageError
from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.launch.arguments.options import Options
from fleet.launch.processes.child import Child
from fleet.observe.metrics.registry import Sample, Spread, samples_of

log = logging.getLogger("fleetrun")

_GAUGES = {"fleet_table_rows": "rows", "fleet_table_memory_bytes": "memory_bytes"}
_HISTOGRAMS = {"fleet_worker_step_seconds": "step_s", "fleet_server_staleness_steps": "staleness_steps"}


class CurveWriter:
    """Writes the curves of one machine's processes, for its launcher."""

    def __init__(self, folder: Path, log_dir: Path) -> None:
        if env.FLEET_METRICS.get() == "0":
            raise UsageError("--tensorboard has nothing to show with FLEET_METRICS=0; leave out one of them")
        require_tensorboard()
        self._folder, self._figures = folder, log_dir / files.FOLDER
        self._runs: dict[int, _Run] = {}
        """By pid: each life of a process writes a file of its own."""
        self._has_told = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--tensorboard {folder}: the folder cannot be made ({error.strerror})") from None

    def look(self, children: Sequence[Child]) -> None:
        """Write what is new of these processes."""
        for child in children:
            figures = whole.read(files.figures_file(self._figures, child.plan.log_path.name, child.pid))
            if figures is None:
                continue
            try:
                if child.pid not in self._runs:
                    self._runs[child.pid] = _Run(self._folder / f"{child.plan.role}.{child.plan.index}", child.pid)
                self._runs[child.pid].add(float(figures.get("time", 0.0)), samples_of(figures))
            except OSError as error:  # a full disk: the job goes on without curves
                if not self._has_told:
                    self._has_told = True
                    log.warning("--tensorboard: %s cannot be written (%s)", self._folder, error.strerror)

    def close(self) -> None:
        """Let the files go."""
        for run in self._runs.values():
            run.close()


class _Run:
    """One process: what was written of it last, and its file."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self._summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        writer: Any = importlib.import_module("tensorboard.summary.writer.record_writer")
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{pid}.0"
        self._file = (folder / name).open("wb")
        self._records = writer.RecordWriter(self._file)
        self._records.write(self._event.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        self._at = 0.0
        self._step = -1
        self._before: dict[tuple[str, str], float | Spread] = {}

    def add(self, at: float, samples: Sequence[Sample]) -> None:
        """Write the figures of one moment, if there was a step since the last."""
        now = {(one.name, next(iter(one.labels.values()), "")): one.value for one in samples}
        step = _whole(now.get(("fleet_worker_steps_total", ""), now.get(("fleet_server_version", ""), 0)))
        if at <= self._at or step <= self._step:
            return
        values = self._values(now, at - self._at, step - self._step) if self._at else []
        values += [self._scalar(name, value) for name, value in _given(now)]
        self._at, self._step, self._before = at, step, now
        if values:
            event = self._event.Event(wall_time=at, step=step, summary=self._summary.Summary(value=values))
            self._records.write(event.SerializeToString())
            self._file.flush()

    def close(self) -> None:
        """Let the file go; what the disk has no room for is lost."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _values(self, now: dict[tuple[str, str], float | Spread], seconds: float, num_steps: int) -> list[Any]:
        """What is a difference to the moment before."""
        found = []
        for (name, label), value in now.items():
            before = self._before.get((name, label))
            if isinstance(value, Spread):
                told = _HISTOGRAMS.get(name)
                if told is not None and (spread := _since(value, before)) is not None:
                    found.append(self._summary.Summary.Value(tag=told, histo=self._histogram(spread)))
            elif isinstance(before, float):
                if name == "fleet_worker_part_seconds_total":
                    found.append(self._scalar(f"part_s/{label}", (value - before) / num_steps))
                elif name == "fleet_worker_samples_total":
                    found.append(self._scalar("samples_per_s", (value - before) / seconds))
                elif name == "fleet_worker_steps_total":
                    found.append(self._scalar("steps_per_s", (value - before) / seconds))
        return found

    def _scalar(self, tag: str, value: float) -> Any:
        return self._summary.Summary.Value(tag=tag, simple_value=value)

    def _histogram(self, spread: Spread) -> Any:
        limits = [*spread.bounds, (spread.bounds[-1] or 1.0) * 10]
        number = sum(spread.counts)
        return self._summary.HistogramProto(
            min=0.0,
            max=max(limit for limit, count in zip(limits, spread.counts, strict=True) if count),
            num=number,
            sum=spread.total,
            sum_squares=0.0,
            bucket_limit=limits,
            bucket=spread.counts,
        )


def _given(now: dict[tuple[str, str], float | Spread]) -> list[tuple[str, float]]:
    """What is told as it is: what the script reports, and the size of tables."""
    found = []
    for (name, label), value in now.items():
        if not isinstance(value, Spread):
            if name == "fleet_worker_reported":
                found.append((label, value))
            elif name in _GAUGES:
                found.append((f"{_GAUGES[name]}/{label}", value))
    return found


def _since(value: Spread, before: float | Spread | None) -> Spread | None:
    """What a histogram has got since; None if nothing."""
    old = before.counts if isinstance(before, Spread) else (0,) * len(value.counts)
    counts = tuple(new - one for new, one in zip(value.counts, old, strict=True))
    total = value.total - (before.total if isinstance(before, Spread) else 0.0)
    return Spread(value.bounds, counts, total) if sum(counts) > 0 and min(counts) >= 0 else None


def _whole(value: float | Spread) -> int:
    return 0 if isinstance(value, Spread) else int(value)


def require_tensorboard() -> None:
    """UsageError where TensorBoard is not installed."""
    try:
        importlib.import_module("tensorboard.compat.proto.summary_pb2")
    except ImportError:
        raise UsageError("--tensorboard needs tensorboard: pip install 'torch-fleet[curves]'") from None


def make_board(options: Options) -> CurveWriter:
    """What writes for TensorBoard where `--tensorboard` says, or into the log folder."""
    log_dir = Path(options.log_dir).absolute()
    folder = Path(options.tensorboard).absolute() if options.tensorboard else log_dir / "tensorboard"
    return CurveWriter(folder, log_dir)
