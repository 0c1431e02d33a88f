"""The workers beside servers come to a call before any of them exchanges something in it: a meeting on server 0.

It knows who has left, and in sync mode who has made a step instead, so that nobody waits in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleet.collective.world.arrival import refuse_differing
from fleet.ps.job.patience import step_timeout_s
from fleet.ps.together.worker_meetings import WorkerMeetings

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client


class ServedArrival:
    """The calls of one worker. Every worker makes the same ones, in the same order."""

    def __init__(self, client: Callable[[], Client | None]) -> None:
        """`client` gives the worker's client while it is with the servers; before and after, nobody is waited for."""
        self._client = client
        self._number = 0

    def come(self, call: str) -> None:
        """Return when every worker has come to `call`; an error that names who has gone on, or left, without it."""
        if (client := self._client()) is None:
            return
        meeting = WorkerMeetings(client, "arrival", step_timeout_s())
        refuse_differing(meeting.meet(str(self._number), call, call, is_between_steps=True))
        self._number += 1
