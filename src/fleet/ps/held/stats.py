"""What a server has done so far: pulls, pushes, staleness, rows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fleet.observe.metrics.registry import Histogram

if TYPE_CHECKING:
    from fleet.ps.held.holdings import Holdings
    from fleet.ps.held.requests import PushedUpdate


STALENESS_BOUNDS = (0, *(2**power for power in range(15)))
"""Upper bounds of the histogram, in pushes."""


class Stats:
    """Counters of one server. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(
            ("pulls", "pulled_rows", "pushes", "repeated_pushes", "pushed_rows", "skipped", "stale_pushes"), 0
        )
        self._total_staleness = 0
        self._most_stale = 0
        self._steps = 0
        self._gathering_s = self._applying_s = self._answering_s = 0.0
        self.staleness = Histogram(STALENESS_BOUNDS)
        self.last_push_at = 0.0
        """In seconds since 1970."""
        self.shrunk_rows = 0
        self.native: Callable[[], dict[str, int]] | None = None
        """What native code has counted by itself."""

    def count(self, **increments: int) -> None:
        """Add to some counters."""
        with self._lock:
            for name, increment in increments.items():
                self._counts[name] += increment

    def pushed(self, update: PushedUpdate, staleness: int, skipped: int) -> None:
        """Count a push that was taken; `staleness` is the number of pushes between its pull and itself."""
        self.count(pushes=1, pushed_rows=update.num_rows, skipped=skipped, stale_pushes=staleness > 0)
        with self._lock:
            self._total_staleness += staleness
            self._most_stale = max(self._most_stale, staleness)
            self.staleness.add(staleness)
            self.last_push_at = time.time()

    def stepped(self, gathering_s: float, applying_s: float) -> None:
        """Count a synchronous step: from its first push to its last, and what applying them took."""
        with self._lock:
            self._steps += 1
            self._gathering_s += gathering_s
            self._applying_s += applying_s

    def applied(self, seconds: float) -> None:
        """Count the time of a push that was applied by itself."""
        with self._lock:
            self._applying_s += seconds

    def answered(self, seconds: float) -> None:
        """Count the time that rows took to be found and written into an answer of gRPC."""
        with self._lock:
            self._answering_s += seconds

    def parts(self) -> dict[str, float]:
        """Seconds so far that pushes waited for the rest of their step, that applying took, and that answers took."""
        native = {} if self.native is None else self.native()
        with self._lock:
            answer_s = self._answering_s + native.get("answer_ns", 0) / 1e9
            return {"wait": self._gathering_s, "apply": self._applying_s, "answer": answer_s}

    def _phases(self) -> dict[str, float]:
        """Where the time of a synchronous step goes, in the mean; answers are those of the data plane."""
        native = {} if self.native is None else self.native()
        steps, rounds = max(1, self._steps), max(1, native.get("rounds", 0))
        return {
            "gathering_ms": 1000 * self._gathering_s / steps,
            "applying_ms": 1000 * self._applying_s / steps,
            "answering_ms": native.get("answering_us", 0) / 1000 / rounds,
        }

    def counts(self) -> dict[str, int]:
        """For a snapshot."""
        with self._lock:
            return {**self._all(), "total_staleness": self._total_staleness, "most_stale": self._most_stale}

    def _all(self) -> dict[str, int]:
        native = {} if self.native is None else self.native()
        return {name: count + native.get(name, 0) for name, count in self._counts.items()}

    def restore(self, saved: dict[str, int]) -> None:
        """Go on as a snapshot says."""
        with self._lock:
            self._counts = {name: int(saved.get(name, 0)) for name in self._counts}
            self._total_staleness, self._most_stale = int(saved["total_staleness"]), int(saved["most_stale"])

    def to_json(self, holdings: Holdings, version: int, **more: Any) -> str:
        """Everything, with the size of each table."""
        tables = {
            table.name: {
                "rows": len(table),
                "waiting": table.num_waiting,
                "bytes": table.memory_bytes,
                **({"disk": table.tier_counts()} if table.has_disk else {}),
            }
            for table in holdings.tables
        }
        with self._lock:
            pushes = max(1, self._counts["pushes"])
            staleness = {"mean": self._total_staleness / pushes, "max": self._most_stale}
            if self.native is not None:
                more["data_plane"] = self.native()
            if self._steps:
                more["step"] = self._phases()
            return json.dumps({**self._all(), "staleness": staleness, "version": version, "tables": tables, **more})
