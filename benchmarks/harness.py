"""What every benchmark shares: fair timing, and one format of results file.

A results file is JSON: when, command, hardware, versions, and one record per case with the raw seconds, their median
and their spread. A timing means little elsewhere; the ratio of two timings of one run is what we quote.
"""

from __future__ import annotations

import json
import os
import platform
import runpy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

OURS = "torch-fleet"
VERSION_FILE = Path(__file__).parents[1] / "src" / "fleet" / "_version.py"


@dataclass(frozen=True)
class Timing:
    """Seconds of every repetition, in the order they ran."""

    raw_s: list[float]

    @property
    def median_s(self) -> float:
        return statistics.median(self.raw_s)

    @property
    def spread(self) -> float:
        """The middle half of the repetitions, as a fraction of the median."""
        low, _, high = statistics.quantiles(self.raw_s, n=4)
        return (high - low) / self.median_s

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "median_s": self.median_s, "spread": self.spread}


def measure(
    contestants: Mapping[str, Callable[[], object]],
    *,
    repeats: int = 11,
    warmup: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time the contestants in turn, so that a slow moment of the machine hits all of them alike.

    With `time.process_time` for a clock, what all threads of this process compute counts, and waiting does not.
    """
    raw: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warmup + repeats):
        for name, call in contestants.items():
            start = clock()
            result = call()
            elapsed = clock() - start
            del result  # freeing it is not part of the next contestant's time
            if turn >= warmup:
                raw[name].append(elapsed)
    return {name: Timing(seconds) for name, seconds in raw.items()}


def hardware() -> dict[str, Any]:
    """The machine: CPU model, cores this process may use, memory."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions(packages: Sequence[str] = (OURS, "torch", "numpy")) -> dict[str, str]:
    """Python's version and those of `packages`, as installed; Fleet may also be run from the tree of this file."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    if found.get(OURS) == "not installed":
        found[OURS] = f"{runpy.run_path(str(VERSION_FILE))['__version__']}, from its source tree"
    return found


def commit(folder: Path = VERSION_FILE.parent) -> str | None:
    """The commit of this tree, with a plus sign where files differ from it; None where git or its folder is not."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def write_results(path: Path, cases: Sequence[Mapping[str, Any]], **more: Any) -> None:
    """Write the results file; `more` adds fields that are common to all cases."""
    document = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(["python", *sys.argv]),
        "hardware": hardware(),
        "versions": versions(),
        "commit": commit(),
        **more,
        "cases": list(cases),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
