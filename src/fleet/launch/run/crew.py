"""The processes of this machine in one round: started, started again in their places, and nothing left of them."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from fleet import env
from fleet.errors import UsageError
from fleet.launch.planning.plan import ProcessPlan
from fleet.launch.planning.script import SPARE_COMMAND
from fleet.launch.processes import guard
from fleet.launch.processes.child import Child, dying_with_launcher
from fleet.launch.processes.guard import Guard
from fleet.launch.processes.logs import JobIdentity, ReadyProcess, end_line
from fleet.launch.processes.spare import Spare

STDOUT = 1


class Crew:
    """Who has which place; `tell` hears of each exit, from a thread."""

    def __init__(
        self,
        ready: Sequence[ReadyProcess],
        followed: ProcessPlan,
        identity: JobIdentity,
        watchman: Guard,
        tell: Callable[[Child], None],
    ) -> None:
        self.children: list[Child] = []
        """In the order of their places; one that was started again stands where the former one stood."""
        self._ready = list(ready)
        self._locks: dict[str, int | None] = {}
        self._followed = followed
        self._identity = identity
        self._guard = watchman
        self._tell = tell

    @property
    def workers(self) -> list[Child]:
        """The workers of this machine, running or not."""
        return [child for child in self.children if child.plan.role == "worker"]

    @property
    def running(self) -> list[Child]:
        """Whoever has not ended, as far as was noticed."""
        return [child for child in self.children if child.is_running]

    def start(self) -> None:
        """Start everybody; UsageError if one cannot be started."""
        for one in self._ready:
            try:
                self.children.append(self._start(one, life=0))
            except OSError as error:
                raise UsageError(f"cannot start {one.plan.name}: {error.strerror or error}") from error
        for child in self.children:
            child.when_it_exits(self._tell)

    def start_again(self, old: Child) -> Child:
        """Start a process anew in the place of one that has died; OSError if the system cannot now."""
        place = self.children.index(old)
        ready = self._ready[place]
        end_line(ready.log, old.plan.log_path)
        new = self.children[place] = self._start(ready, old.life + 1)
        new.when_it_exits(self._tell)
        return new

    def add(self, ready: Sequence[ReadyProcess], life: int = 0, spare: Spare | None = None) -> list[Child]:
        """Start more processes, beside the others; OSError at the first that cannot be started."""
        for one in ready:
            child = self._start(one, life, spare)
            self._ready.append(one)
            self.children.append(child)
            child.when_it_exits(self._tell)
        return self.children[-len(ready) :]

    def drop(self, child: Child) -> ReadyProcess:
        """Forget a process that was released, whose place nobody takes here; what it was started with."""
        place = self.children.index(child)
        del self.children[place]
        return self._ready.pop(place)

    def change(self, child: Child, **changes: Any) -> None:
        """Have a process that runs be something else from now on, also when it is started again."""
        place = self.children.index(child)
        plan = child.plan = replace(child.plan, **changes)
        self._ready[place] = self._ready[place]._replace(plan=plan)

    def lock_of(self, folder: str) -> int | None:
        """The lock of what a process here keeps, by its name in the folder of the job; None if nobody had it."""
        return self._locks.get(folder)

    def release(self, child: Child) -> None:
        """End all that is left of a process that has ended, so that its id can be used again."""
        child.signal(signal.SIGKILL)
        self._guard.forget(child.pid)
        child.reap()

    def sweep_after(self, child: Child) -> None:
        """End what has left the group of a process that was released."""
        guard.sweep(self._identity.job_id, notes=child.notes)

    def reap_orphans(self) -> None:
        """Release processes that fleetrun has adopted and that have ended."""
        guard.reap_orphans(spare=self._not_orphans() | {child.pid for child in self.children})

    def clean_up(self) -> None:
        """Leave nothing; each step is taken whatever becomes of the one before."""
        with ExitStack() as steps:
            steps.callback(guard.end_descendants, spare=self._not_orphans())
            steps.callback(guard.sweep, self._identity.job_id)
            for child in self.children:
                steps.callback(self.release, child)  # the first to be called

    def spare(self, plan: ProcessPlan) -> Spare:
        """An interpreter that can become a process like this one later; OSError if the system cannot start it."""
        job = {env.FLEET_JOB_ID.name: self._identity.job_id}
        return Spare(SPARE_COMMAND, env.without_roles(env.inherited()) | plan.variables | job, dying_with_launcher())

    def _start(self, ready: ReadyProcess, life: int, spare: Spare | None = None) -> Child:
        is_seen = ready.plan is self._followed and os.isatty(STDOUT)
        seen_at = os.get_terminal_size(STDOUT).columns if is_seen else None
        self._locks[ready.plan.folder] = ready.lock
        child = Child(ready, self._identity, seen_at, life, spare)
        self._guard.watch(child.pid)
        return child

    def _not_orphans(self) -> set[int]:
        return {self._guard.pid, *self._guard.elders}
