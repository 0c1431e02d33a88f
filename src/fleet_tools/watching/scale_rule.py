"""`fleetrun --scale RULE`: the number of workers follows how busy servers are.

    workers to keep servers at 70% of a core
    workers to keep servers at 70% of a core, every 2m

So long all workers that there are to be have trained, with none starting or leaving; then CPU seconds of the servers,
which fleetrun writes down anyway, say how many workers there should be. It asks for them as `fleetrun scale` does: at
most twice as many and at least half, within `--worker_num A:B`, and none more or less where servers are nearly as busy
as they are to be.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet import env
from fleet.errors import UsageError
from fleet.jobfiles import figures as files
from fleet.jobfiles import whole
from fleet.jobfiles.scaling import ScaleNotes
from fleet.launch.arguments.options import Options
from fleet.launch.processes.child import Child

EVERY_S = 60.0
NEAR = 0.1
"""How far servers may be from what they are to be, as a share of that."""
_RULE = re.compile(r"workers to keep servers at (\d+(?:\.\d+)?)% of a core(?:, every (\d+(?:\.\d+)?)(s|m))?")

log = logging.getLogger("fleetrun")


class WorkersRule:
    """Decides how many workers there are to be."""

    def __init__(self, options: Options) -> None:
        found = _RULE.fullmatch(text := options.scale or "")
        if found is None or not float(found[1]) or (found[2] and not float(found[2])):
            raise UsageError(
                f'--scale {text!r}: write "workers to keep servers at 70% of a core", and behind it, for how long to '
                'look before each decision, ", every 2m"'
            )
        if env.FLEET_METRICS.get() == "0":
            raise UsageError(
                "--scale goes by figures, and FLEET_METRICS=0 says that there are none; leave out one of them"
            )
        assert options.worker_range is not None
        assert options.durable is not None
        self._share = float(found[1]) / 100
        self._every_s = float(found[2]) * (60 if found[3] == "m" else 1) if found[2] else EVERY_S
        self._limits = options.worker_range
        self._notes = ScaleNotes(options.durable)
        self._figures = Path(options.log_dir).absolute() / files.FOLDER / "fleetrun.0.json"
        self._began_at = 0.0
        self._before: Mapping[int, float] = {}
        """CPU seconds of each server when this began; empty: it has not."""
        self._num = 0

    def look(self, children: Sequence[Child]) -> None:
        """Ask for another number of workers if it is time, and they should be more or fewer."""
        workers = [child for child in children if child.plan.role == "worker" and child.is_running]
        wish = self._notes.wanted()
        is_changing = wish is not None and self._notes.answer(wish.number) is None
        if is_changing or any(child.back_at is None for child in workers):
            self._before = {}
            return
        told = (whole.read(self._figures) or {}).get("processes", ())
        servers = {one["pid"]: one["cpu"] for one in told if one["role"] == "server" and one["cpu"] is not None}
        if (wanted := self.decide(time.monotonic(), servers, len(workers))) is not None:
            self._notes.wish(wanted)

    def decide(self, now: float, servers: Mapping[int, float], num: int) -> int | None:
        """How many workers there are to be instead of `num`; None: so many, or it is not known yet.

        `servers`: the CPU seconds of each, by process.
        """
        took = now - self._began_at
        if not self._before or servers.keys() != self._before.keys() or num != self._num:
            self._began_at, self._before, self._num = now, dict(servers), num
            return None
        if took < self._every_s:
            return None
        busy = sum(used - self._before[pid] for pid, used in servers.items()) / len(servers) / took
        self._before = {}
        if not num or busy <= 0 or abs(busy - self._share) <= NEAR * self._share:
            return None
        wanted = min(max(round(num * self._share / busy), (num + 1) // 2), 2 * num)
        wanted = min(max(wanted, self._limits.least), self._limits.most)
        if wanted == num:
            return None
        log.warning(
            "--scale: servers were at %.0f%% of a core for %.0f s, and are to be at %.0f%%: %d workers instead of %d",
            100 * busy,
            took,
            100 * self._share,
            wanted,
            num,
        )
        return wanted
