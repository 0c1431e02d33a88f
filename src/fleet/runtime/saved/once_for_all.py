"""Calls that change what servers hold: every worker makes them, worker 0 carries them out, and nobody trains then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleet.observe.waits.waiting import waiting_in
from fleet.ps.job.patience import step_timeout_s
from fleet.ps.together.worker_meetings import WorkerMeetings

if TYPE_CHECKING:
    from fleet.collective.world.util import Util
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.ps.worker.worker import Worker
    from fleet.roles import Identity


def once_for_all(
    worker: Worker,
    name: str,
    who: Identity,
    util: Util,
    act: Callable[[], int],
    follow: Callable[[], None],
    check: Callable[[], None] = lambda: None,
) -> int:
    """Call `act` on worker 0 and `follow` on the others; returns what `act` gave, when all have done so.

    `name` is that of the function of `fleet`. `check` raises, before anybody waits, if it cannot be done now. In a
    durable job it is done once in all lives of the workers.
    """
    if worker.progress is not None:
        return _in_all_lives(worker, name, worker.progress, act, follow, check)
    check()
    worker.policy.flush()
    if who.num_workers == 1:
        return act()
    with waiting_in(f"fleet.{name}()"):
        util.barrier()  # nothing that was computed before may reach what is changed
        rows = int(util.all_reduce(act() if who.index == 0 else 0))
        if who.index != 0:
            follow()
        util.barrier()  # a step before that would change the version that others have yet to read
        return rows


def _in_all_lives(
    worker: Worker,
    name: str,
    progress: ScriptProgress,
    act: Callable[[], int],
    follow: Callable[[], None],
    check: Callable[[], None],
) -> int:
    """Do it once in all lives: a worker that is started again does not take the servers back."""
    turn = progress.turns.take(name)
    if progress.is_past(name, turn):
        return int(progress.answers.get(f"{name}/{turn}") or 0)
    check()
    workers = WorkerMeetings(worker.client, f"{name}/{turn}", step_timeout_s())
    workers.purpose = f"fleet.{name}()"
    worker.policy.flush()
    workers.gather_at("flushed", b"")  # nothing that was computed before may reach what is changed
    rows, has_acted = 0, False
    if workers.rank == 0 and not workers.is_told("rows", [0]):  # a former life that has said so has done it
        with workers.giving_signs("rows"):
            rows, has_acted = act(), True
    rows = int(workers.gather_at("rows", str(rows).encode())[0])
    if not has_acted:
        follow()
    workers.gather_at("over", b"")  # a step before that would change the version that others have yet to read
    progress.answers.put(f"{name}/{turn}", rows)
    return rows
