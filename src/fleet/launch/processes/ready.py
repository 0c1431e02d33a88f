"""What it takes to start a process: its plan, its log and its lock, and the job that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from fleet.launch.planning.plan import ProcessPlan


class ReadyProcess(NamedTuple):
    """A process that can be started, once or in several lives."""

    plan: ProcessPlan
    log: int
    """A descriptor to which its output is appended."""
    lock: int | None = None
    """A descriptor that locks what it keeps in the folder of a durable job, for it to inherit."""


@dataclass(frozen=True)
class JobIdentity:
    """What every process of a round is told about the job."""

    job_id: str
    token: str = field(repr=False)
    restart: int = 0
    """How often the job was started before."""
