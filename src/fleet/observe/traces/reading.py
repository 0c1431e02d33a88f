"""A trace as the processes of a job have left it: reads their files, damaged ones as far as they go."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.observe.traces.trace_files import FORM, own_files


class TracedSpan(NamedTuple):
    """Something that a thread did, a call of a worker, or a request that a server got."""

    name: str
    thread: int
    begin_ns: int
    end_ns: int
    about: dict[str, Any]


@dataclass
class Traced:
    """What one process has recorded."""

    role: str
    index: int
    pid: int
    boot: str
    """Which machine, since when: processes with the same one share a clock."""
    host: str
    wall_ns: int
    mono_ns: int
    endpoint: str = ""
    threads: dict[int, str] = field(default_factory=dict)
    spans: list[TracedSpan] = field(default_factory=list)
    wires: list[TracedSpan] = field(default_factory=list)
    requests: list[TracedSpan] = field(default_factory=list)
    num_steps: int = 0
    num_lost: int = 0
    is_over: bool = False

    @property
    def name(self) -> str:
        """`worker 0`."""
        return f"{self.role} {self.index}"

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to show."""
        return not (self.spans or self.wires or self.requests)


def read_trace(log_dirs: Sequence[Path]) -> list[Traced]:
    """The processes whose spans lie in some log folders: servers first, each role by its index."""
    found = []
    for log_dir in log_dirs:
        endpoints = _endpoints(log_dir)
        for path in own_files(log_dir):
            if (one := _read(path)) is not None:
                one.endpoint = endpoints.get(one.name, "")
                found.append(one)
    return sorted(found, key=lambda one: (one.role != "server", one.index, one.mono_ns))


def is_complete(log_dir: Path, num_workers: int) -> bool:
    """Whether so many workers have said that the last step is behind them; looks at the ends of files only."""
    num_over = 0
    for path in own_files(log_dir):
        if path.name.startswith("workerlog."):
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 256))
                num_over += b'["over",' in file.read()
    return num_over >= num_workers


def _read(path: Path) -> Traced | None:
    kind, _, rest = path.name.partition(".")
    role, number = {"workerlog": "worker", "serverlog": "server"}.get(kind), rest.partition(".")[0]
    lines = _lines(path)
    head = next(lines, None)
    if role is None or not number.isdigit() or not isinstance(head, dict) or head.get("form") != FORM:
        return None
    try:
        names = ("pid", "boot", "host", "wall_ns", "mono_ns")
        found = Traced(role, int(number), *(head[name] for name in names))
    except KeyError:
        return None
    for line in lines:
        if isinstance(line, list) and line:
            _take(found, line)
    return found


def _take(found: Traced, line: list[Any]) -> None:
    kind, *rest = line
    kept = {"span": found.spans, "wire": found.wires, "request": found.requests}.get(kind)
    if kept is not None and len(rest) == 5 and all(isinstance(one, int) for one in rest[1:4]):
        span = TracedSpan(*rest)
        kept.append(span if span.end_ns >= span.begin_ns else span._replace(end_ns=span.begin_ns))
    elif kind == "thread" and len(rest) == 2:
        found.threads.setdefault(rest[0], str(rest[1]))  # that of Python comes first
    elif kind == "over" and len(rest) == 2:
        found.is_over, found.num_steps, found.num_lost = True, rest[0], rest[1]


def _lines(path: Path) -> Iterator[Any]:
    """What can be read of a file: a disk may have been full in the middle of a line."""
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue
    except OSError:
        return


def _endpoints(log_dir: Path) -> dict[str, str]:
    """Where servers are, by their names, as the launchers say."""
    found = {}
    for path in sorted((log_dir / files.FOLDER).glob("fleetrun.*.json")):
        for one in (whole.read(path) or {}).get("processes", ()):
            found[str(one.get("name"))] = str(one.get("endpoint"))
    return found
