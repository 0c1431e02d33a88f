"""Who of a durable job is started again in its place, when, and how long it took until it was back.

A process that a signal killed had bad luck, and is started again at once. One that ended with an exit code of its own
has more often a mistake: a worker waits a moment before its next life, and the third end in a row within `EARLY_S` of
the start is the end of the job. So is a worker that has ended with the report of a stall (124), a server that cannot
read its journal (exit code 2), a worker that could not join its servers for an error of usage or a state that does not
fit, and a process that has died more than `--max_restart` times within `WINDOW_S`, or has ended with an error more
often than that in a row, each time within `WINDOW_S` of its start.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fleet import env
from fleet.launch.durable.folder import has_journal
from fleet.launch.processes.child import Child
from fleet.launch.processes.endings import signal_name
from fleet.observe.stall.words import EXIT_CODE as STALLED

WINDOW_S = 600.0
EARLY_S = 30.0
NUM_EARLY = 3
UNUSABLE = 2
"""The exit code of a server that refuses what it was given: a damaged journal, the folder of another job."""
LOOK_S = 0.05
"""How soon a process that is back is noticed, if that is within `SOON_S`."""
SOON_S = 60.0


@dataclass
class Comeback:
    """A process that died and was started again."""

    name: str
    how: str
    """`was killed by SIGKILL`, `ended with exit code 1`."""
    life: int
    """2 for the first time it was started again."""
    died_at: float
    """In seconds since 1970, as `back_at`."""
    back_at: float | None = None
    """When a server listened, or a worker had joined its servers; None before, and if it never did."""

    @property
    def took_s(self) -> float | None:
        """From its death until it was back."""
        return None if self.back_at is None else self.back_at - self.died_at


class Lives:
    """The lives of a job's processes on this machine; in a job that is not durable each has one."""

    def __init__(self, max_restart: int | None) -> None:
        self._max_restart = max_restart
        self._deaths: defaultdict[str, list[float]] = defaultdict(list)
        """When each process died, within the last `WINDOW_S`."""
        self._num_early: defaultdict[str, int] = defaultdict(int)
        """How many lives in a row ended early by an exit code."""
        self._num_errors: defaultdict[str, int] = defaultdict(int)
        """How many lives in a row ended by an exit code, none of them long: slow mistakes come to an end, too."""
        self._due: dict[Child, float] = {}
        """Dead children and the moment their place is to be taken, by the monotonic clock."""
        self._away: dict[Child, Comeback] = {}
        """Living children that are not back yet."""
        self._excused: set[int] = set()
        self.given_up: dict[Child, str] = {}
        """Children that failed and are not started again, and why; "" where that needs no word."""
        self.returns: list[Comeback] = []

    @property
    def is_durable(self) -> bool:
        """Whether a process has more than one life."""
        return self._max_restart is not None

    @property
    def away(self) -> list[str]:
        """The names of processes that have died, or were started again, and are not back."""
        return sorted(child.plan.name for child in (*self._due, *self._away))

    def excuse(self, pid: int) -> None:
        """Do not count the death of this process: fleetrun itself is about to kill it."""
        self._excused.add(pid)

    def died(self, child: Child) -> bool:
        """Take note of a failure; whether the process is to be started again."""
        self._away.pop(child, None)
        why = self._why_not(child)
        if why is not None:
            self.given_up[child] = why
            return False
        self._due[child] = time.monotonic() + self._pause_s(child)
        return True

    def take_due(self) -> list[Child]:
        """The dead children whose place is to be taken now."""
        now = time.monotonic()
        due = [child for child, at in self._due.items() if at <= now]
        for child in due:
            del self._due[child]
        return due

    def forget(self, child: Child) -> None:
        """It is needed no more: nobody waits for it, and nobody takes its place."""
        self._due.pop(child, None)
        self._away.pop(child, None)

    def put_off(self, child: Child, seconds: float) -> None:
        """Take its place later: it could not be done now."""
        self._due[child] = time.monotonic() + seconds

    def began(self, old: Child, new: Child) -> Comeback:
        """Take note that `new` has the place of `old`."""
        assert old.status is not None
        assert old.exited_at is not None
        self._away[new] = this = Comeback(new.plan.name, how_it_died(old.status), new.life + 1, old.exited_at)
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

    def _why_not(self, child: Child) -> str | None:
        """Why it is not started again; None if it is."""
        if self._max_restart is None:
            return ""
        if is_unfit(child):
            return f"{child.plan.name} is not started again: it would meet the same"
        if child.plan.role == "worker" and child.status == STALLED:
            return ""  # the report in its log says why, and the others have ended too
        if child.pid in self._excused:
            self._excused.discard(child.pid)
            return None
        assert child.status is not None
        assert child.exited_at is not None
        name, now = child.plan.name, time.monotonic()
        lived_s = child.exited_at - child.started_at
        is_early = lived_s < EARLY_S
        self._num_errors[name] = self._num_errors[name] + 1 if lived_s < WINDOW_S and child.status > 0 else 0
        self._num_early[name] = self._num_early[name] + 1 if is_early and child.status > 0 else 0
        if self._num_early[name] >= NUM_EARLY:
            return (
                f"{name} is not started again: {NUM_EARLY} times in a row it has ended with an error within "
                f"{EARLY_S:.0f} s of its start"
            )
        deaths = self._deaths[name] = [at for at in self._deaths[name] if now - at < WINDOW_S] + [now]
        if len(deaths) > self._max_restart:
            times = "once" if len(deaths) == 1 else f"{len(deaths)} times"
            return (
                f"{name} is not started again: it has died {times} within {WINDOW_S / 60:.0f} minutes "
                f"(--max_restart {self._max_restart})"
            )
        if self._num_errors[name] > self._max_restart:
            return (
                f"{name} is not started again: {self._num_errors[name]} times in a row it has ended with an error "
                f"within {WINDOW_S / 60:.0f} minutes of its start (--max_restart {self._max_restart})"
            )
        return None

    def _pause_s(self, child: Child) -> float:
        """A worker with a mistake waits 1 s, then 2 s; everybody else nothing."""
        assert child.status is not None
        if child.plan.role == "server" or child.status < 0:
            return 0.0
        return 2.0 ** max(0, self._num_early[child.plan.name] - 1)


def is_unfit(child: Child) -> bool:
    """Whether it has refused what it was given, or was refused: its next life would be as well."""
    if child.plan.role == "server":
        return child.status == UNUSABLE
    return (child.status or 0) > 0 and child.was_refused


def is_stopped_early(server: Child) -> bool:
    """Whether somebody else has told a server of a durable job to stop, while it was needed."""
    folder = server.plan.variables.get(env.FLEET_DURABLE.name)
    return folder is not None and has_journal(folder, server.plan.folder)


def how_it_died(status: int) -> str:
    """`was killed by SIGKILL`, `ended with exit code 1`."""
    if status == 0:
        return "was stopped, though its workers have not finished"
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with exit code {status}"


def summary(returns: Iterable[Comeback]) -> str | None:
    """`3 restarts: server 1 back after 0.8 s and 1.2 s, worker 0 back after 2.0 s`; None if there were none."""
    by_name: defaultdict[str, list[float | None]] = defaultdict(list)
    for one in returns:
        by_name[one.name].append(one.took_s)
    if not by_name:
        return None
    number = sum(map(len, by_name.values()))
    parts = ", ".join(f"{name} {_times(took)}" for name, took in by_name.items())
    return f"{number} restart{'s' if number > 1 else ''}: {parts}"


def _times(took: list[float | None]) -> str:
    known = [seconds for seconds in took if seconds is not None]
    if not known:
        return "not back" if len(took) == 1 else f"{len(took)} times, not back"
    if len(known) > 3:
        text = f"{len(took)} times, back after {min(known):.1f} s to {max(known):.1f} s"
    else:
        text = "back after " + " and ".join(f"{seconds:.1f} s" for seconds in known)
    missing = len(took) - len(known)
    return f"{text} ({missing} time{'s' if missing > 1 else ''} not back)" if missing else text
