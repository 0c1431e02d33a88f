"""How many cores this process may use, by its CPU affinity, its container's quota and Slurm; on how many threads."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from fleet import env

MOST_NATIVE_THREADS = 8
"""The threads that one call of the C++ core uses by default: its work is soon bound by memory."""


def num_cores(root: Path = Path("/")) -> int:
    """At least 1. A quota of 2.5 cores counts as 2: the third thread would be stopped while the others wait for it.

    It is no more than Slurm has given a task, which not every cluster enforces.
    """
    cores = len(os.sched_getaffinity(0))
    return max(1, int(min([cores, env.SLURM_CPUS_PER_TASK.get() or cores, *_quotas(root)])))


def thread_variables(cores: int, environ: env.Environ | None = None) -> dict[str, str]:
    """The variables that give a process so many cores, and let threads that wait sleep; none that the user has set.

    Libraries read most of them when they are loaded, so they are for a process that has no torch yet.
    """
    chosen: dict[env.EnvVariable[Any], object] = {
        env.OMP_NUM_THREADS: cores,
        env.FLEET_NATIVE_THREADS: min(MOST_NATIVE_THREADS, cores),
        **({} if user_chose_waiting(environ) else {env.OMP_WAIT_POLICY: "PASSIVE"}),
    }
    return {variable.name: str(value) for variable, value in chosen.items() if variable.text(environ) is None}


def user_chose_waiting(environ: env.Environ | None = None) -> bool:
    """Whether variables of the user say how threads of OpenMP wait for each other."""
    return env.OMP_WAIT_POLICY.text(environ) is not None or env.GOMP_SPINCOUNT.text(environ) is not None


def _quotas(root: Path) -> Iterator[float]:
    """The limits of this process's control groups and of all that these lie in, in cores.

    Within a container the names in /proc may be those of the machine, which are no folders here; what the container
    may use then stands in the topmost folder, which is always looked at.
    """
    mounted = root / "sys/fs/cgroup"
    for group, controllers in _groups(root):
        tops = [mounted / name for name in (controllers, "cpu")] if controllers else [mounted, mounted / "unified"]
        for top in dict.fromkeys(tops):
            for folder in (group, *group.parents):
                if (quota := _quota(top / folder.relative_to("/"))) is not None:
                    yield quota


def _groups(root: Path) -> Iterator[tuple[PurePosixPath, str]]:
    """Name and controllers of each control group that may limit CPU time; version 2 names no controllers."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            yield PurePosixPath("/") / name, controllers


def _quota(folder: Path) -> float | None:
    """What a folder of a control group says, in either version; None without a limit, which is `max` or -1."""
    for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((folder / name).read_text() for name in files).split()
            if int(quota) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError):
            continue
    return None
