"""`strategy.clip_norm` beside servers: refused, before anything is declared, where it cannot be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import UsageError

if TYPE_CHECKING:
    from fleet.ps.job.spec import JobSpec
    from fleet.strategy import DistributedStrategy


def check_clipping(strategy: DistributedStrategy, job: JobSpec) -> None:
    """UsageError where gradients cannot be limited as the strategy says."""
    if job.clip_norm is None or job.num_workers == 1:
        return
    said = f"strategy.clip_norm = {job.clip_norm:g}"
    if strategy.dense == "allreduce":
        raise UsageError(
            f"{said}: with strategy.dense = 'allreduce' nobody has the gradients of rows and layers of all workers; "
            "use strategy.dense = 'server'"
        )
    if job.clips_on_servers and strategy.wait_for_workers_s:
        raise UsageError(
            f"{said}: the norm of a step needs the gradients of every worker; leave out strategy.wait_for_workers_s"
        )
