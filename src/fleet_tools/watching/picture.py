"""A job as the files in its log folder show it: the one view that the page, the terminal and Prometheus share.

It is read anew each time, so it is the same for a job that runs, has ended, or was killed. A file that is missing or
half-written is left out, and named among the problems.
"""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.errors import UsageError
from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.observe.metrics.registry import Sample, flat, samples_of

GONE_S = 6.0
"""How old the word of a launcher may be that has not said how its job ended: then it is gone."""
MOST_EVENTS = 200


@dataclass(frozen=True)
class SeenProcess:
    """One process of a job, as its launcher saw it last, with its figures."""

    name: str
    role: str
    index: str
    state: str
    is_up: bool
    about: dict[str, Any]
    samples: list[Sample] = field(default_factory=list)
    written_at: float | None = None
    where: str = ""
    """Where a worker is in its script, if it has made no step for long."""

    def figures(self) -> dict[str, float]:
        """The figures of one process as plain numbers, by name or, where there are several, `name|label`."""
        found: dict[str, float] = {}
        for sample in self.samples:
            found |= flat(sample)
        return found


@dataclass(frozen=True)
class Picture:
    """A whole job, of all machines that write into this folder."""

    machines: list[dict[str, Any]]
    processes: list[SeenProcess]
    problems: list[str]

    @property
    def is_over(self) -> bool:
        """Whether no launcher is left."""
        return all(machine["is_over"] for machine in self.machines)


def observed(log_dir: Path) -> Path:
    """Where figures lie; UsageError if there are none."""
    folder = log_dir / files.FOLDER
    if not log_dir.is_dir():
        raise UsageError(f"{log_dir}: there is no such folder; give the --log_dir of a job")
    if not any(folder.glob("fleetrun.*.json")):
        raise UsageError(
            f"{log_dir}: no figures of a job are in it; was it written by an older fleetrun, or with FLEET_METRICS=0?"
        )
    return folder


def read_picture(log_dir: Path) -> Picture:
    """What is known of the job now; UsageError if nothing is."""
    folder, now = observed(log_dir), time.time()
    machines: list[dict[str, Any]] = []
    processes: list[SeenProcess] = []
    problems: list[str] = []
    for path in sorted(folder.glob("fleetrun.*.json")):
        try:
            machine, found, bad = _machine(folder, path, now)
        except (AttributeError, KeyError, TypeError, ValueError):
            problems.append(f"{path.name} is damaged or half-written")
            continue
        machines.append(machine)
        processes += found
        problems += bad
    return Picture(machines, processes, problems)


def _machine(folder: Path, path: Path, now: float) -> tuple[dict[str, Any], list[SeenProcess], list[str]]:
    """What one launcher has written, its processes, and what is wrong with their files; any error if it is damaged."""
    machine = whole.read(path)
    if machine is None:
        raise ValueError(path)
    age_s = now - float(machine["time"])
    machine["is_gone"] = machine.get("ended") is None and age_s > GONE_S
    machine["is_over"] = machine.get("ended") is not None or machine["is_gone"]
    found = [_seen(folder, about, is_over=machine["is_over"]) for about in machine.pop("processes")]
    return machine, [seen for seen, _ in found], [problem for _, problem in found if problem]


def _seen(folder: Path, about: dict[str, Any], *, is_over: bool) -> tuple[SeenProcess, str]:
    state = str(about.get("state", ""))
    if is_over and state in ("running", "waiting"):
        state = "gone"
    path = files.figures_file(folder, str(about.get("log", "")), int(about.get("pid", 0)))
    figures, problem = whole.read(path), ""
    if figures is None and path.exists():
        problem = f"{path.name} is damaged or half-written"
    samples = [] if figures is None else samples_of(figures)
    samples += [
        Sample("fleet_process_resident_memory_bytes", float(about.get("rss") or 0)),
        Sample("fleet_process_cpu_seconds_total", float(about.get("cpu") or 0)),
    ]
    layout = about.get("layout") or 0
    index = f"{about.get('index', '')}" + (f" of layout {layout}" if layout else "")
    written_at = None if figures is None else float(figures.get("time", 0.0))
    is_up = state in ("running", "waiting")
    where = str(figures.get("where", "")) if figures is not None and is_up else ""
    name, role = str(about.get("name")), str(about.get("role"))
    return SeenProcess(name, role, index, state, is_up, about, samples, written_at, where), problem


def read_events(log_dir: Path, most: int = MOST_EVENTS) -> list[dict[str, Any]]:
    """The last events of all processes and launchers, in the order of their time."""
    found: list[dict[str, Any]] = []
    for path in (log_dir / files.FOLDER).glob("*.events.jsonl"):
        who = _who(path.name.removesuffix(".events.jsonl"))
        found += [{"who": who, **event} for event in files.lines(path, 1 << 17) if _is_event(event)][-most:]
    return sorted(found, key=lambda event: event["time"])[-most:]


def _who(log: str) -> str:
    """`worker 0`, of `workerlog.0`."""
    role, _, index = log.partition("log.")
    return f"{role} {index}" if index else log


def _is_event(line: dict[str, Any]) -> bool:
    return isinstance(line.get("time"), int | float) and isinstance(line.get("text"), str)


def read_history(log_dir: Path) -> list[dict[str, Any]]:
    """How figures changed: `t`, and for each process its figures; of all machines, in the order of their time."""
    found: list[dict[str, Any]] = []
    for path in (log_dir / files.FOLDER).glob("fleetrun.*.history.jsonl"):
        found += [line for line in files.lines(path) if "t" in line and isinstance(line.get("p"), dict)]
    return sorted(found, key=lambda line: float(line["t"]))


def version_of(log_dir: Path) -> int:
    """A number that changes whenever a launcher writes."""
    total = 0
    for path in (log_dir / files.FOLDER).glob("fleetrun.*.json"):
        try:
            total += os.stat(path).st_mtime_ns
        except OSError:
            continue
    return total
