"""A script of torch.distributed that was started beside servers: the report says what torch's error means there."""

from collections.abc import Iterable

_SAID = (
    "environment variable RANK expected, but not set",
    "Default process group has not been initialized",
)


def remedy(log_lines: Iterable[str]) -> str | None:
    """One line about an error of torch in a job with servers; None if it is no such error."""
    if not any(said in line for line in log_lines for said in _SAID):
        return None
    return (
        "torch.distributed has no process group beside servers: a script of its own, such as one with DDP, is started "
        "without them, fleetrun --nproc_per_node 2; beside servers fleet.distributed_model() and fleet.util do its work"
    )
