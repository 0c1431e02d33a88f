"""The life of a job as a small state machine: start, run, stop, and perhaps start again.

Everything that can happen arrives in one queue: a child's exit, a signal to the launcher, news from other machines. The
first failure ends the job; so does the last worker's success. Whatever way it ends, nothing is left.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from fleet.errors import UsageError
from fleet.launch import guard, report
from fleet.launch.child import Child, exit_code
from fleet.launch.follow import Follower
from fleet.launch.plan import Plan
from fleet.launch.team import AllDone, NodeFailed

log = logging.getLogger("fleetrun")

GRACE_S = 5.0
"""How long a process may take to end after it was told to; then it is killed."""
SETTLE_S = 2.0
"""How long to wait for a process that has raised to leave, before the others are stopped."""
TICK_S = 0.05


@dataclass(frozen=True)
class Signalled:
    """The launcher itself was told to stop."""

    number: int


Event = Child | Signalled | NodeFailed | AllDone


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended."""

    code: int
    report: str = ""
    may_restart: bool = False


class Job:
    """Runs a plan to its end."""

    def __init__(self, plan: Plan, job_id: str, max_restart: int) -> None:
        self._plan = plan
        self._job_id = job_id
        self._max_restart = max_restart
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._follower = Follower(plan.followed.log_path, sys.stdout.buffer)
        self._children: list[Child] = []

    def run(self) -> int:
        """Start everything, wait for the end, report; returns the exit code of the job."""
        previous = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        self._plan.layout.team.listen(self._events)
        try:
            for restart in range(self._max_restart + 1):
                outcome = self._attempt(restart)
                if outcome.report:
                    log.error("%s", outcome.report)
                if not outcome.may_restart or restart == self._max_restart:
                    break
                log.warning("restarting the job, attempt %d of %d", restart + 1, self._max_restart)
            return outcome.code
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._events.put(Signalled(number))

    def _attempt(self, restart: int) -> Outcome:
        self._children = []
        try:
            self._start(restart)
            return self._watch()
        finally:
            self._clean_up()

    def _start(self, restart: int) -> None:
        width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
        for process in self._plan.processes:
            try:
                seen_at = width if process is self._plan.followed else None
                self._children.append(Child(process, self._job_id, restart, seen_at))
            except OSError as error:
                raise UsageError(
                    f"cannot start {process.name}: {error.filename or ''} {error.strerror or error}"
                ) from error
        for child in self._children:
            child.when_it_exits(self._events.put)

    def _watch(self) -> Outcome:
        team = self._plan.layout.team
        workers = [child for child in self._children if child.plan.role == "worker"]
        if not workers:
            team.done()
        while True:
            event = self._next_event()
            match event:
                case Signalled(number):
                    log.warning("%s: stopping %d processes", signal.Signals(number).name, len(self._running()))
                    team.failed(f"fleetrun was stopped by {signal.Signals(number).name}", 128 + number)
                    self._stop(number)
                    return Outcome(128 + number)
                case NodeFailed(what, code):
                    self._stop(signal.SIGTERM)
                    return Outcome(code, f"the job failed on another machine: {what}")
                case AllDone():
                    return self._finish()
                case Child(status=0) if event.plan.role == "server":
                    log.warning("%s ended by itself, before the workers", event.plan.name)
                case Child(status=0):
                    if not any(worker.is_running for worker in workers):
                        team.done()
                        if self._plan.layout.num_nodes > 1:
                            log.info("the workers of this machine have finished; waiting for the other machines")
                case Child():
                    return self._fail()

    def _finish(self) -> Outcome:
        if self._running():
            log.info("all workers exit, going to finish parameter server and heter_worker.")
            self._stop(signal.SIGTERM)
            log.info("all parameter server are killed")
        self._follower.pump()
        log.info("Local processes completed.")
        return Outcome(0)

    def _fail(self) -> Outcome:
        # A child that has raised but not left yet may be the cause of the exit we saw; its exit comes in moments.
        self._drain(lambda: not any(child.error_path.exists() for child in self._running()), SETTLE_S)
        cause = report.find_cause(self._children)
        assert cause.status is not None
        code = exit_code(cause.status)
        host = self._plan.layout.host
        self._plan.layout.team.failed(f"{report.one_line(cause)} on {host} (pid {cause.pid})", code)
        self._stop(signal.SIGTERM)
        log.error(
            "ABORT!!! Out of all %d trainers, the trainer process with rank=%s was aborted. Please check its log.",
            len(self._plan.layout.workers),
            [child.plan.index for child in self._children if child.plan.role == "worker" and _failed_by_itself(child)],
        )
        self._follower.pump()
        return Outcome(code, report.failure_report(cause, self._children), may_restart=True)

    def _stop(self, number: int) -> None:
        """Tell everything to end, wait, then insist. A second signal to the launcher ends the waiting."""
        for child in self._running():
            child.signal(number)
        self._drain(lambda: not self._running(), GRACE_S, until_signal=True)
        for child in self._running():
            log.warning("%s (pid %d) did not end within %.0f s; killed", child.plan.name, child.pid, GRACE_S)
            child.signal(signal.SIGKILL)
        self._drain(lambda: not self._running(), GRACE_S)

    def _running(self) -> list[Child]:
        return [child for child in self._children if child.is_running]

    def _drain(self, is_enough: Callable[[], bool], timeout_s: float, until_signal: bool = False) -> None:
        """Let events pass until `is_enough`, the time is up, or (if asked) the launcher is signalled again."""
        deadline = time.monotonic() + timeout_s
        while not is_enough() and time.monotonic() < deadline:
            try:
                event = self._events.get(timeout=TICK_S)
            except Empty:
                event = None
            self._follower.pump()
            if until_signal and isinstance(event, Signalled):
                return

    def _next_event(self) -> Event:
        while True:
            self._follower.pump()
            try:
                return self._events.get(timeout=TICK_S)
            except Empty:
                continue

    def _clean_up(self) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)
            child.reap()
        guard.sweep(self._job_id)
        self._follower.pump()


def _failed_by_itself(child: Child) -> bool:
    return child.status not in (None, 0) and not child.was_told_to_stop
