"""Calls that every worker makes and one carries out: worker 0 writes, the others wait until it has.

Worker 0 waits for nobody, so a script in which it alone makes the call works as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import CheckpointError, DeadlineError
from fleet.ps.job.patience import step_timeout_s
from fleet.ps.together.worker_meetings import WorkerMeetings

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker


class OneWriter:
    """The saves of a job by which worker 0 writes for all. A folder's `n`th save is the same on every worker."""

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
        if workers.rank == 0 and not (progress is not None and workers.is_told(topic, [0])):
            return self._write(workers, topic, write)
        worker.policy.flush()
        try:
            said = json.loads(workers.meet(topic, "", call, others=[0], is_between_steps=True)[0])
        except DeadlineError as error:
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
