"""One clock for processes of several machines, from the calls between them: nobody has to be asked.

A call leaves a worker before it reaches the server, and its answer leaves the server before it is back. Each call so
bounds by how much the clocks differ, from both sides; all calls together bound it closer. The middle is taken, and half
the width is how wrong that can be. Processes of one machine share CLOCK_MONOTONIC and need no correction.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fleet.observe.traces.reading import Traced


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
