"""Servers behind the end of all workers: what their script does then, and those that ran one without Fleet."""

import time
from collections.abc import Callable, Iterable

from fleet.jobfiles.joining import unstopped_text
from fleet.launch.processes.child import Child
from fleet.observe.waits.waiting import workers_text


def have_ended(children: Iterable[Child], settle_s: float) -> Callable[[], bool]:
    """Whether the servers that every worker has left have ended by themselves, as they do, or do not begin to for long.

    Behind `run_server()` a script may go on to what is for workers, and fail there: nobody stops it before it says so.
    """
    known = list(children)
    is_known_to_all = not any(child.plan.role == "worker" and child.is_unstopped for child in known)
    served = [child for child in known if is_known_to_all and child.plan.role == "server" and child.back_at is not None]
    settled_at = time.monotonic() + settle_s

    def is_over() -> bool:
        left = [child for child in served if child.is_running]
        return not left or (time.monotonic() > settled_at and not any(child.is_leaving for child in left))

    return is_over


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


def unstopped(children: Iterable[Child]) -> list[str]:
    """One line about the workers that ended in order, but without `fleet.stop_worker()`, if there are any."""
    found = [child.plan.index for child in children if child.status == 0 and child.is_unstopped]
    return [unstopped_text(workers_text(found))] if found else []
