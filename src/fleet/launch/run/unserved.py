"""Servers that ran a script without Fleet: the job ends well, although its processes never talked to each other."""

from collections.abc import Iterable

from fleet.launch.processes.child import Child


def complaint(children: Iterable[Child]) -> str | None:
    """One line about servers that ended well without having served; None if there are none."""
    names = [child.plan.name for child in children if _ran_alone(child)]
    if not names:
        return None
    return (
        f"{', '.join(names)} ran the script to its end and served nobody: it calls neither fleet.init() nor "
        "fleet.run_server(), so each process has worked by itself; for a script without Fleet leave out the servers: "
        "fleetrun --nproc_per_node 2"
    )


def _ran_alone(child: Child) -> bool:
    """Whether it is a server that ended well by itself, without serving or `fleet.init()`, which would note the end."""
    if child.plan.role != "server" or child.status != 0 or child.was_told_to_stop or child.noted_at is not None:
        return False
    return child.back_at is None
