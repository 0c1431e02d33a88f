"""The life of a job as a small state machine: start, run, stop, and perhaps start again.

Everything that can happen arrives in one queue: a child's exit, a signal to the launcher, news from other machines. The
first failure ends the job; so does the last worker's success. Whatever way it ends, nothing is left.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from fleet.errors import UsageError
from fleet.launch import guard, report
from fleet.launch.child import Child, exit_code
from fleet.launch.follow import Follower
from fleet.launch.guard import Guard
from fleet.launch.messages import AllDone, NodeFailed
from fleet.launch.output import write_within
from fleet.launch.plan import Plan

log = logging.getLogger("fleetrun")

GRACE_S = 5.0
"""How long a process may take to end after it was told to; then it is killed."""
SETTLE_S = 2.0
"""How long to wait for a process that has begun to end, before the others are stopped."""
HEARSAY_S = SETTLE_S + 1.0
"""How long to wait for another machine that failed before us to say so: it waits itself until its process is gone."""
PATIENCE_S = 2.0
"""How long a terminal that takes nothing is waited for when the job has failed."""
TICK_S = 0.05
REAP_EVERY_S = 30.0
"""How long an orphan that we adopted may stay a zombie."""
STDOUT = 1


@dataclass(frozen=True)
class Signalled:
    """The launcher itself was told to stop."""

    number: int


Event = Child | Signalled | NodeFailed | AllDone


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended."""

    code: int
    complaints: tuple[str, ...] = ()
    """Said after the last line of the followed process."""
    may_restart: bool = False


class Job:
    """Runs a plan to its end."""

    def __init__(self, plan: Plan, logs: list[int], job_id: str, watchman: Guard, max_restart: int) -> None:
        self._plan = plan
        self._logs = logs
        self._job_id = job_id
        self._guard = watchman
        self._max_restart = max_restart
        self._signalled: Signalled | None = None
        self._follower: Follower | None = None
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._children: list[Child] = []

    def run(self) -> int:
        """Start everything, wait for the end, report; returns the exit code of the job.

        Signals that end a process stay in our hands afterwards: what comes after the outcome does not change it.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
                signal.signal(number, self._on_signal)
        guard.adopt_orphans()
        for restart in range(self._max_restart + 1):
            outcome = self._attempt(restart)
            is_last = not outcome.may_restart or self._signalled is not None or restart == self._max_restart
            if is_last and self._follower is not None:
                self._finish_following(outcome)
            for complaint in outcome.complaints:
                log.error("%s", complaint)
            if is_last:
                break
            log.warning("restarting the job, attempt %d of %d", restart + 1, self._max_restart)
        if outcome.code == 0:
            log.info("Local processes completed.")
        return outcome.code

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signalled = Signalled(number)
        self._events.put(self._signalled)

    def _attempt(self, restart: int) -> Outcome:
        try:
            self._start(restart)
            if self._follower is None:
                self._follower = Follower(self._plan.followed.log_path, STDOUT)
            return self._watch()
        finally:
            self._clean_up()

    def _start(self, restart: int) -> None:
        self._children = []
        if restart:  # what the last attempt left unheard is not about this one, unless it is about us
            self._events = SimpleQueue()
            if self._signalled is not None:
                self._events.put(self._signalled)
        self._plan.layout.team.listen(self._events)
        width = os.get_terminal_size(STDOUT).columns if os.isatty(STDOUT) else None
        token = self._plan.layout.team.token.value
        for process, log_file in zip(self._plan.processes, self._logs, strict=True):
            seen_at = width if process is self._plan.followed else None
            try:
                self._children.append(Child(process, log_file, self._job_id, token, restart, seen_at))
            except OSError as error:
                raise UsageError(f"cannot start {process.name}: {error.strerror or error}") from error
            self._guard.watch(self._children[-1].pid)
        for child in self._children:
            child.when_it_exits(self._events.put)

    def _watch(self) -> Outcome:
        team = self._plan.layout.team
        workers = [child for child in self._children if child.plan.role == "worker"]
        if not workers:
            team.done()
        while True:
            match event := self._next_event():
                case Signalled(number):
                    return self._obey(number)
                case NodeFailed():
                    return self._fail(event)
                case AllDone():
                    return self._finish()
                case Child(status=0) if event.plan.role == "server":
                    pass  # every worker has left it; if not, a worker will fail, and the report says this too
                case Child(status=0):
                    if all(worker.status == 0 for worker in workers):
                        team.done()
                        if self._plan.layout.num_nodes > 1:
                            log.info("the workers of this machine have finished; waiting for the other machines")
                case Child():
                    return self._fail()

    def _next_event(self) -> Event:
        while True:
            try:
                return self._events.get(timeout=REAP_EVERY_S)
            except Empty:
                guard.reap_orphans(spare=self._not_orphans() | {child.pid for child in self._children})

    def _not_orphans(self) -> set[int]:
        return {self._guard.pid, *self._guard.elders}

    def _obey(self, number: int) -> Outcome:
        name = signal.Signals(number).name
        running = self._running()
        for child in running:  # before a word: the terminal may take its time
            child.signal(number)
        log.warning("%s: stopping %d processes", name, len(running))
        self._plan.layout.team.failed(NodeFailed(f"fleetrun was stopped by {name}", 128 + number, time.time()))
        self._stop(number)
        return Outcome(128 + number)

    def _finish(self) -> Outcome:
        if any(child.has_failed for child in self._children):
            return self._fail()
        if servers := self._running():
            for server in servers:
                server.signal(signal.SIGTERM)
            log.info("all workers exit, going to finish parameter server and heter_worker.")
            self._stop(signal.SIGTERM)
            log.info("all parameter server are killed")
            for server in servers:
                if server.status not in (0, -signal.SIGTERM, -signal.SIGKILL):
                    how = report.how_it_ended(server.status or 0)
                    log.warning("%s was told to stop: %s; see %s", server.plan.name, how, server.plan.log_path)
        return Outcome(0)

    def _fail(self, *elsewhere: NodeFailed) -> Outcome:
        """End the job over a failure here or on other machines; whichever began first is the cause."""
        failures = list(elsewhere)
        # A child that has begun to end but is not gone may be the cause of what we saw; its exit comes in moments.
        self._drain(lambda: not any(child.is_leaving for child in self._children), SETTLE_S, failures)
        if not any(child.has_failed for child in self._children):
            self._stop(signal.SIGTERM)
            return _failed_elsewhere(failures)
        cause, began_at = report.find_cause(self._children)
        assert cause.status is not None
        what = f"{report.one_line(cause)} on {self._plan.layout.host} (pid {cause.pid})"
        self._plan.layout.team.failed(NodeFailed(what, exit_code(cause.status), began_at))
        if self._plan.layout.num_nodes > 1:
            self._drain(lambda: any(failure.began_at < began_at for failure in failures), HEARSAY_S, failures)
        self._stop(signal.SIGTERM)
        text = report.failure_report(cause, self._children)
        if any(failure.began_at < began_at for failure in failures):
            return _failed_elsewhere(failures, f"after it, on this machine: {text}")
        complaints = (text, report.abort_line(self._children, len(self._plan.layout.workers)))
        return Outcome(exit_code(cause.status), tuple(filter(None, complaints)), may_restart=True)

    def _stop(self, number: int) -> None:
        """Tell everything to end, wait, then insist. A second signal to the launcher ends the waiting."""
        started = time.monotonic()
        for child in self._running():
            if not child.was_told_to_stop:
                child.signal(number)
        self._drain(lambda: not self._running(), GRACE_S, until_signal=True)
        for child in self._running():
            waited_s = time.monotonic() - started
            log.warning("%s (pid %d) did not end within %.1f s; killed", child.plan.name, child.pid, waited_s)
            child.signal(signal.SIGKILL)
        self._drain(lambda: not self._running(), GRACE_S)

    def _running(self) -> list[Child]:
        return [child for child in self._children if child.is_running]

    def _drain(
        self,
        is_enough: Callable[[], bool],
        timeout_s: float,
        failures: list[NodeFailed] | None = None,
        until_signal: bool = False,
    ) -> None:
        """Let events pass until `is_enough`, the time is up, or (if asked) the launcher is signalled again.

        Other machines' failures are kept in `failures`.
        """
        deadline = time.monotonic() + timeout_s
        while not is_enough() and time.monotonic() < deadline:
            try:
                event = self._events.get(timeout=TICK_S)
            except Empty:
                continue
            if isinstance(event, NodeFailed) and failures is not None:
                failures.append(event)
            if isinstance(event, Signalled) and until_signal:
                return

    def _clean_up(self) -> None:
        """Leave nothing; each step is taken whatever becomes of the one before."""
        with ExitStack() as steps:
            steps.callback(guard.end_descendants, spare=self._not_orphans())
            steps.callback(guard.sweep, self._job_id)
            for child in self._children:
                steps.callback(self._release, child)

    def _release(self, child: Child) -> None:
        child.signal(signal.SIGKILL)
        self._guard.forget(child.pid)
        child.reap()

    def _finish_following(self, outcome: Outcome) -> None:
        assert self._follower is not None
        patience_s = None if outcome.code == 0 else PATIENCE_S
        is_shown = self._follower.finish(patience_s, lambda: self._signalled is not None)
        if os.isatty(STDOUT):  # a progress bar that was killed leaves no cursor, and a line without an end
            write_within(STDOUT, b"\x1b[?25h" + (b"\n" if self._follower.is_mid_line else b""), patience_s=0.5)
        if not is_shown:
            log.warning("nobody reads this output; all of it is in %s", self._plan.followed.log_path)


def _failed_elsewhere(failures: list[NodeFailed], *more: str) -> Outcome:
    cause = min(failures, key=lambda failure: failure.began_at)
    return Outcome(cause.code, (f"the job failed on another machine: {cause.what}", *more))
