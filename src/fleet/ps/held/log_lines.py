"""What a server writes into its log about the job that was declared to it."""

from collections.abc import Sequence

from fleet.ps.job.spec import JobSpec

_MOST_NAMES = 8
"""A model may have thousands of parameters; their sizes are in the checkpoint."""


def job_line(job: JobSpec, server: int) -> str:
    """One line: whom this server serves, in which mode, and what it holds."""
    tables = [f"{table.name} (width {table.width}, {table.rule.name})" for table in job.tables]
    names = [name for name, _ in job.dense.shapes]
    here = sum(block.end - block.begin for block in job.dense.blocks if block.server == server)
    return (
        f"server {server} of {job.num_servers}, {job.num_workers} worker{'s' if job.num_workers > 1 else ''}, "
        f"{job.mode} mode; tables: {_listed(tables)}; dense parameters: {_listed(names)}, {here:,} values of them here"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more if names else "none"
