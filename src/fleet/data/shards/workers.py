"""What a reader knows of its job: which worker this is, and short questions to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from fleet.errors import CommunicationError, NotSupportedError, RoleError, UsageError

if TYPE_CHECKING:
    from fleet.api import Fleet
    from fleet.ps.worker.life.passing import Passing


class Workers:
    """The workers of a job, as one of them sees them. Every question is asked by all, in the same order.

    In a job of one worker nothing is ever sent.
    """

    def __init__(self, job: Fleet, call: str = "fleet.data.shard", *, has_queue: bool = False) -> None:
        """`call` is what the user has called, for errors; `has_queue`: server 0 says what each worker reads."""
        if job.is_server():
            raise RoleError(f"{call} divides data among workers; this process is a server")
        self._call = call
        self.progress = job.progress
        self.membership = None if self.progress is None else self.progress.membership
        """Where workers come and go. Then each is alone as far as readers know: what it reads is the queue's to say."""
        if self.membership is not None and not has_queue:
            raise NotSupportedError(
                f"{call} divides data by the number of workers, and in this job they come and go (--worker_num A:B); "
                "read files with fleet.data.files(..., queue=True), or give one number of workers"
            )
        self.index, self.num = (0, 1) if self.membership is not None else (job.worker_index(), job.worker_num())
        self.is_collective = self.num > 1 and job.is_collective()
        self._job = job

    def join(self) -> AbstractContextManager[Any]:
        """The context in which workers may run out of batches at different times."""
        return self._job.join()

    @property
    def passing(self) -> Passing | None:
        """What this worker does at the end of its batches, where the others' steps wait for its pushes."""
        return self._job.passing if self.num > 1 else None

    def compare(self, values: Mapping[str, Any], remedy: str, own: Any = None) -> Any:
        """Raise on every worker, with who has what, unless all have the same values; worker 0's `own`, if they do."""
        if self.num == 1:
            return own
        told = self._job.util.all_gather([dict(values), own])
        for name in values:
            holders: dict[str, list[int]] = {}
            for worker, (other, _) in enumerate(told):
                holders.setdefault(str(other.get(name, "missing")), []).append(worker)
            if len(holders) > 1:
                listed = ", ".join(f"{value} on {name_workers(of)}" for value, of in holders.items())
                raise UsageError(f"{self._call}: {name} is not the same on all workers: {listed}; {remedy}")
        return told[0][1]

    def ask(self, state: int, topic: str) -> Callable[[], list[int]]:
        """Tell the others a small number; the function that comes back waits for theirs, by worker.

        `topic` says what it is about: one of them may be started again, and ask what was asked before.

        In a collective job the numbers travel while this worker trains. The default group is used, from the thread that
        trains, so that the order of its operations is the same everywhere.
        """
        if not self.is_collective:
            told = self._job.util.gather_at(topic, state)
            return lambda: told
        states = torch.zeros(self.num, dtype=torch.uint8)
        states[self.index] = state
        work = dist.all_reduce(states, async_op=True)
        assert work is not None

        def answer() -> list[int]:
            try:
                work.wait()
            except RuntimeError as error:
                first = str(error).splitlines()[0]
                raise CommunicationError(
                    f"worker {self.index} of {self.num} waited to hear which workers have another batch: {first}"
                ) from error
            return [int(told) for told in states]

        return answer


def name_workers(workers: list[int], most: int = 8) -> str:
    """`worker 3`, or `workers 0, 2`; a long list is cut short."""
    listed = ", ".join(map(str, workers[:most])) + (f" and {len(workers) - most} more" if len(workers) > most else "")
    return f"worker{'s' if len(workers) > 1 else ''} {listed}"
