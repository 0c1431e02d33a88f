"""The lives of a durable job's processes: who has died, whose place is to be taken when, and who is back.

Whether somebody is started again is `restart_policy`'s to say.
"""

import math
import time
from typing import Generic, TypeVar

from fleet.job.comebacks import Comeback, how_it_died
from fleet.job.life import ProcessLife
from fleet.job.restart_policy import RestartPolicy

LOOK_S = 0.05
"""How soon a process that is back is noticed, if that is within `SOON_S`."""
SOON_S = 60.0


L = TypeVar("L", bound=ProcessLife)


class Lives(Generic[L]):
    """The lives of a job's processes on this machine; in a job that is not durable each has one."""

    def __init__(self, max_restart: int | None) -> None:
        self.is_durable = max_restart is not None
        """Whether a process has more than one life."""
        self._policy = RestartPolicy(max_restart)
        self._due: dict[L, float] = {}
        """Dead children and the moment their place is to be taken, by the monotonic clock."""
        self._away: dict[L, Comeback] = {}
        """Living children that are not back yet."""
        self.given_up: dict[L, str] = {}
        """Children that failed and are not started again, and why; "" where that needs no word."""
        self.returns: list[Comeback] = []

    @property
    def away(self) -> list[str]:
        """The names of processes that have died, or were started again, and are not back."""
        return sorted(child.name for child in (*self._due, *self._away))

    def excuse(self, pid: int) -> None:
        """Do not count the death of this process: fleetrun itself is about to kill it."""
        self._policy.excuse(pid)

    def died(self, child: L) -> bool:
        """Take note of a failure; whether the process is to be started again."""
        self._away.pop(child, None)
        why = self._policy.why_not(child)
        if why is not None:
            self.given_up[child] = why
            return False
        self._due[child] = time.monotonic() + self._policy.pause_s(child)
        return True

    def take_due(self) -> list[L]:
        """The dead children whose place is to be taken now."""
        now = time.monotonic()
        due = [child for child, at in self._due.items() if at <= now]
        for child in due:
            del self._due[child]
        return due

    def forget(self, child: L) -> None:
        """A child that is not needed any more: nobody waits for it, and nobody takes its place."""
        self._due.pop(child, None)
        self._away.pop(child, None)

    def put_off(self, child: L, seconds: float) -> None:
        """Take the place of a dead child later: it could not be done now."""
        self._due[child] = time.monotonic() + seconds

    def began(self, old: L, new: L) -> Comeback:
        """Take note that `new` has the place of `old`."""
        assert old.status is not None
        assert old.exited_at is not None
        self._away[new] = this = Comeback(new.name, how_it_died(old.status), new.life + 1, old.exited_at)
        self.returns.append(this)
        return this

    def look(self) -> float:
        """See who is back; returns in how many seconds to look again at the latest."""
        for child, this in list(self._away.items()):
            back_at = time.time() if child.status == 0 else child.back_at
            if back_at is not None:
                this.back_at = back_at
                del self._away[child]
        next_due = min(self._due.values(), default=math.inf) - time.monotonic()
        is_soon = any(time.time() - child.started_at < SOON_S for child in self._away)
        return max(0.0, min(next_due, LOOK_S if is_soon else math.inf))
