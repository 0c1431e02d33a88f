"""What is to be started on this machine: every process with its command, its variables and its log; data only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.jobfiles.layouts import server_folder
from fleet.launch.planning.layout import JobLayout


@dataclass(frozen=True)
class ProcessPlan:
    """One process to start."""

    role: str
    """`worker`, `server`, or `copy`, which is a server that nobody asks yet."""
    index: int
    endpoint: str
    device: str
    command: tuple[str, ...]
    variables: dict[str, str]
    """What fleetrun adds to the environment; the distributed ones are shown in the banner."""
    log_path: Path
    layout: int = 0
    """Which layout of servers this server belongs to (fleet.jobfiles.layouts); 0 for workers."""

    @property
    def name(self) -> str:
        """`worker 0`, `server 3`, `copy of server 3`: as logs and reports call it."""
        if self.role == "copy":
            return f"copy of server {self.index}"
        return f"{self.role} {self.index}" if not self.layout else f"{self.role} {self.index} of layout {self.layout}"

    @property
    def folder(self) -> str:
        """The name of what it keeps in the folder of a durable job."""
        return f"worker-{self.index}" if self.role == "worker" else server_folder(self.index, self.layout)


@dataclass(frozen=True)
class LaunchPlan:
    """All processes of this machine, servers first, and the whole job they belong to."""

    processes: tuple[ProcessPlan, ...]
    layout: JobLayout
    headline: str
    has_banner: bool = False
    """Whether what the launcher says is as PaddlePaddle's guides show it, as far as they do."""
    max_lives: int | None = None
    """How often a process of a durable job is started again in its place; None: not at all."""

    @property
    def summary(self) -> str:
        """`2 servers and 4 workers on gpu 0, gpu 1`: what starts on this machine."""
        kinds = {role: [one for one in self.processes if one.role == role] for role in ("server", "worker")}
        counts = [f"{len(found)} {role}{'s' if len(found) > 1 else ''}" for role, found in kinds.items() if found]
        places = dict.fromkeys(process.device for process in kinds["worker"] or kinds["server"])
        return f"{' and '.join(counts)} on {', '.join(places)}"

    @property
    def followed(self) -> ProcessPlan:
        """The process whose log is shown on the terminal: the first worker here, else the first server."""
        return next((process for process in self.processes if process.role == "worker"), self.processes[0])

    def with_workers(self, indexes: Collection[int]) -> LaunchPlan:
        """The same plan, with these workers only."""
        kept = (one for one in self.processes if one.role != "worker" or one.index in indexes)
        return replace(self, processes=tuple(kept))

    def with_variables(self, variables: Mapping[str, str]) -> LaunchPlan:
        """The same plan, whose processes are told this as well."""
        told = (replace(one, variables={**one.variables, **variables}) for one in self.processes)
        return replace(self, processes=tuple(told))


def sharing_note(plan: LaunchPlan) -> str | None:
    """A line to show when several workers share a GPU, which NCCL refuses."""
    counts = Counter(process.device for process in plan.processes if process.role == "worker")
    shared = [device for device, count in counts.items() if count > 1 and device != "cpu"]
    return f"{', '.join(shared)}: shared by several workers; NCCL refuses that, Gloo works" if shared else None
