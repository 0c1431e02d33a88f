"""What the processes of this machine wait for, told on the launcher's terminal.

Each process notes a wait that has grown long (`fleet.observe.waits.waiting`). Whoever waits for the same shares a
line. What the followed process waits for stands in its own log, which the terminal shows anyway.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.jobfiles.joining import unstopped_text
from fleet.jobfiles.wait_notes import WaitNote
from fleet.launch.planning.plan import ProcessPlan
from fleet.launch.processes.child import Child
from fleet.observe.waits.waiting import waiting_text, workers_text


@dataclass(frozen=True)
class Forsaken:
    """A worker waits for one of this machine that has ended, and so cannot come."""

    text: str


class Waits:
    """The waits of some children, and what was said of them."""

    def __init__(self, children: Sequence[Child], followed: ProcessPlan) -> None:
        self._children = children
        self._followed = followed
        self._next: dict[str, float] = {}
        """For each wait that was told, how long it has taken when it is told again."""

    def look(self) -> tuple[list[str], Forsaken | None]:
        """The lines to say now, and whether somebody waits in vain."""
        found: dict[str, list[tuple[Child, WaitNote]]] = {}
        for child in self._children:
            for wait in child.waits() if child.is_running else ():
                found.setdefault(wait.what, []).append((child, wait))
        self._next = {what: at for what, at in self._next.items() if what in found}
        lines = [line for what, waiting in found.items() if (line := self._line(what, waiting))]
        vain = next(filter(None, (self._in_vain(*one) for waiting in found.values() for one in waiting)), None)
        return lines, vain

    def _line(self, what: str, waiting: Sequence[tuple[Child, WaitNote]]) -> str | None:
        waited_s = time.time() - min(wait.since for _, wait in waiting)
        if waited_s < self._next.get(what, 0.0):
            return None
        self._next[what] = 2 * waited_s
        if any(child.plan is self._followed for child, _ in waiting):
            return None
        indexes = [child.plan.index for child, _ in waiting if child.plan.role == "worker"]
        if len(indexes) == len(waiting):
            return waiting_text(workers_text(indexes), what, waited_s, are_many=len(indexes) > 1)
        names = ", ".join(child.plan.name for child, _ in waiting)
        return waiting_text(names, what, waited_s, are_many=len(waiting) > 1)

    def _unserved(self, waiter: Child, wait: WaitNote) -> Forsaken | None:
        """Whether a server has ended well by itself that a worker still wants to reach."""
        for child in self._children:
            is_over = child.plan.role == "server" and child.status == 0 and not child.was_told_to_stop
            if is_over and child.plan.endpoint in wait.what and waiter.plan.role == "worker":
                return Forsaken(
                    f"{child.plan.name} ended without serving; where fleet.is_server(), a script ends with "
                    f"sys.exit(fleet.run_server()); {waiter.plan.name} waits for {wait.what}"
                )
        return None

    def _in_vain(self, waiter: Child, wait: WaitNote) -> Forsaken | None:
        ended = [
            child
            for child in self._children
            if child.plan.role == "worker"
            and child.plan.index in wait.workers
            # What was noted before its end may have come since.
            and child.status == 0
            and child.is_unstopped
            and wait.noted_at > (child.exited_at or 0.0)
        ]
        if not ended:
            return self._unserved(waiter, wait)
        return Forsaken(f"{unstopped_text(ended[0].plan.name)}; {waiter.plan.name} waits for {wait.what}")
