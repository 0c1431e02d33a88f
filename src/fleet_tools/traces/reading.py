"""A trace as the processes of a job have left it: their files are read, as far as they go, and put on one clock.

A call leaves a worker before it reaches the server, and its answer leaves the server before it is back. Each call so
bounds by how much the clocks differ, from both sides; all calls together bound it closer. The middle is taken, and half
the width is how wrong that can be. Processes of one machine share CLOCK_MONOTONIC and need no correction.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.observe.trace_files import FORM, own_files


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


@dataclass(frozen=True)
class Offset:
    """What to add to the times of a machine to have those of the first one."""

    offset_ns: int
    error_ns: int | None
    """How wrong it can be; None: nobody knows."""
    how: Literal["same machine", "calls", "wall clocks"]


def offsets(processes: Sequence[Traced]) -> dict[str, Offset]:
    """What to add to the clock of each machine, by its boot id; the first process's machine has the clock."""
    if not processes:
        return {}
    bounds = _bounds(processes)
    found = {processes[0].boot: Offset(0, 0, "same machine")}
    grows = True
    while grows:
        grows = False
        for (one, other), (least, most) in bounds.items():
            if one in found and other not in found:
                middle, error = (least + most) // 2, max(0, most - least + 1) // 2
                before = found[one]
                found[other] = Offset(before.offset_ns + middle, (before.error_ns or 0) + error, "calls")
                grows = True
    base = processes[0]
    for process in processes:
        if process.boot not in found:  # no call joins it to the others
            by_wall = (process.wall_ns - process.mono_ns) - (base.wall_ns - base.mono_ns)
            found[process.boot] = Offset(by_wall, None, "wall clocks")
    return found


def _bounds(processes: Sequence[Traced]) -> dict[tuple[str, str], tuple[int, int]]:
    """For pairs of machines, least and most of what is to be added to the second's times to have the first's."""
    least: dict[tuple[str, str], int] = {}
    most: dict[tuple[str, str], int] = {}
    for worker, server, wire, request in _matched(processes):
        pair = worker.boot, server.boot
        low, high = wire[0] - request[0], wire[1] - request[1]
        least[pair] = max(least.get(pair, low), low)
        most[pair] = min(most.get(pair, high), high)
    both = {pair: (low, most[pair]) for pair, low in least.items()}
    both |= {(other, one): (-high, -low) for (one, other), (low, high) in both.items() if (other, one) not in both}
    return both


def _matched(processes: Sequence[Traced]) -> list[tuple[Traced, Traced, tuple[int, int], tuple[int, int]]]:
    """Pushes that were seen by their worker and by their server, once by each, on different machines."""
    servers = {one.endpoint: one for one in processes if one.role == "server" and one.endpoint}
    requests: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
    for server in servers.values():
        for one in server.requests:
            if one.about.get("sequence"):
                key = (server.endpoint, *(one.about[name] for name in ("worker", "incarnation", "sequence")))
                requests[key].append((one.begin_ns, one.end_ns))
    found = []
    for worker in processes:
        for call in worker.wires:
            endpoint = str(call.about.get("endpoint"))
            key = (endpoint, *(call.about.get(name) for name in ("worker", "incarnation", "sequence")))
            got = requests.get(key, ())
            if call.name == "Push" and len(got) == 1 and servers[endpoint].boot != worker.boot:
                found.append((worker, servers[endpoint], (call.begin_ns, call.end_ns), got[0]))
    return found
