"""Calls that every worker makes and worker 0 carries out: what changes the servers, while nobody trains; and saves."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import CheckpointError, DeadlineError
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


class OneWriter:
    """Saves that every worker makes and worker 0 writes: the others wait until it has, and it waits for nobody.

    So a script in which it alone makes the call works as well. A folder's `n`th save is the same on every worker.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def save(self, worker: Worker, call: str, folder: str | os.PathLike[str], write: Callable[[], Path]) -> Path:
        """Have worker 0 `write`, and wait for it on the others; returns where. CheckpointError on all if it failed.

        `call` is named to a worker that waits in vain.
        """
        topic = f"{call}/{os.path.realpath(folder)}"
        progress = worker.progress
        if progress is None:
            self._counts[topic] += 1
            topic = f"{topic}/{self._counts[topic]}"
        else:
            name = f"saved/{hashlib.sha256(topic.encode()).hexdigest()[:8]}"
            turn = progress.turns.take(name)
            if progress.is_past(name, turn):  # a former life has made this save
                return Path(folder)
            topic = f"{topic}/{turn}"
        workers = WorkerMeetings(worker.client, "saved", step_timeout_s())
        failure = ""
        if progress is not None and (workers.rank == 0 or worker.client.caller(0).incarnation > 1):
            topic, failure = _after_failures(workers, topic, call)
        if workers.rank == 0 and not (progress is not None and workers.is_told(topic, [0])):
            return self._write(workers, topic, write)
        worker.policy.flush()
        try:
            said = json.loads(workers.meet(topic, "", call, others=[0], is_between_steps=True)[0])
        except DeadlineError as error:
            if failure:  # and worker 0 has gone on without that save
                raise CheckpointError(f"{call} failed on worker 0: {failure}") from error
            raise CheckpointError(
                f"{call}: worker 0 writes for all, and has not written {os.fspath(folder)}: {error}, and gives the "
                "same folder"
            ) from error
        if "error" in said:
            raise CheckpointError(f"{call} failed on worker 0: {said['error']}")
        return Path(said["path"])

    @staticmethod
    def _write(workers: WorkerMeetings, topic: str, write: Callable[[], Path]) -> Path:
        said = {"error": "it was interrupted"}
        try:
            with workers.giving_signs(topic):
                path = write()
            said = {"path": str(path)}
        except Exception as error:
            said = {"error": str(error) or repr(error)}
            raise
        finally:
            workers.tell(topic, json.dumps(said))
        return path


def _after_failures(workers: WorkerMeetings, topic: str, call: str) -> tuple[str, str]:
    """The topic of a save in a worker's later life, and why it failed in former ones: each failure has its own topic.

    What was said counts in all lives, so a failure that was told under the topic of the save would be told for ever.
    """
    failure, attempt = "", topic
    for number in count(1):
        if not workers.is_told(attempt, [0]):
            break
        said = json.loads(workers.meet(attempt, "", call, others=[0])[0])
        if "error" not in said:
            break
        failure, attempt = said["error"], f"{topic}/{number}"
    return attempt, failure
