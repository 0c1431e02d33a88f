"""Servers that ran a script without Fleet: the job ends well, although its processes never talked to each other."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.launch.processes.child import Child

LISTENS = b"Server listening on "
"""What every server of Fleet prints when it is ready, whoever started it."""


def complaint(children: Iterable[tuple[Child, int]]) -> str | None:
    """One line about servers that ended well without having served; with each child, where its log began."""
    names = [child.plan.name for child, log_from in children if _ran_alone(child, log_from)]
    if not names:
        return None
    return (
        f"{', '.join(names)} ran the script to its end and served nobody: it calls neither fleet.init() nor "
        "fleet.run_server(), so each process has worked by itself; for a script without Fleet leave out the servers: "
        "fleetrun --nproc_per_node 2"
    )


def _ran_alone(child: Child, log_from: int) -> bool:
    """Whether it is a server that ended well by itself, without serving or `fleet.init()`, which would note the end."""
    if child.plan.role != "server" or child.status != 0 or child.was_told_to_stop or child.noted_at is not None:
        return False
    with child.plan.log_path.open("rb") as log:
        log.seek(log_from)
        return not any(LISTENS in line for line in log)
