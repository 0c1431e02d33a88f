"""The end of a durable job: what its processes kept is removed, so that the same command begins anew.

A job has finished when every worker has left its servers and ended with 0. Servers then remove their files when they
are told to stop, and fleetrun removes those of workers. So that a kill in between leaves no half of a job, it is marked
before the first file goes (`fleet.jobfiles.kept`).
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from fleet import env
from fleet.jobfiles.kept import FINISHED, LEFT, clear_finished
from fleet.launch.durable.folder import has_journal
from fleet.launch.processes.child import Child


def mark(children: Sequence[Child], *, is_whole: bool) -> None:
    """Mark what the processes of this machine keep, if its workers have left in order; called when all have ended.

    `is_whole`: the job has no other machine. If it has, nobody here knows whether the workers there have left, and
    servers, which do know, are not marked.
    """
    workers = _workers(children)
    if not workers or not all((folder / LEFT).exists() for folder in workers):
        return
    for folder in [workers[0].parent] if is_whole else workers:
        with contextlib.suppress(OSError):  # the disk is full, or the folder gone: the job has finished all the same
            (folder / FINISHED).touch()


def clear(children: Sequence[Child]) -> None:
    """Remove what is marked; called when servers have ended, too."""
    if workers := _workers(children):
        clear_finished(workers[0].parent, [folder.name for folder in workers])


def is_stopped_early(server: Child) -> bool:
    """Whether somebody else has told a server of a durable job to stop, while it was needed."""
    folder = server.plan.variables.get(env.FLEET_DURABLE.name)
    return folder is not None and has_journal(folder, server.plan.folder)


def _workers(children: Sequence[Child]) -> list[Path]:
    """What the workers of a durable job keep; nothing in any other job."""
    plans = [child.plan for child in children if child.plan.role == "worker"]
    kept = [(plan.variables.get(env.FLEET_DURABLE.name), plan.folder) for plan in plans]
    return [Path(durable) / folder for durable, folder in kept if durable is not None]
