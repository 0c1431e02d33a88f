"""The life of a job as a small state machine: start, run, stop, and perhaps start again.

Everything that can happen arrives in one queue: a child's exit, a signal to the launcher, news from other machines. The
first failure ends the job; so does the last worker's success. Whatever way it ends, nothing is left.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from fleet.errors import UsageError
from fleet.launch import guard, report
from fleet.launch.child import Child, exit_code
from fleet.launch.follow import Follower
from fleet.launch.guard import Guard
from fleet.launch.plan import Plan
from fleet.launch.team import AllDone, NodeFailed

log = logging.getLogger("fleetrun")

GRACE_S = 5.0
"""How long a process may take to end after it was told to; then it is killed."""
SETTLE_S = 2.0
"""How long to wait for a process that has begun to end, before the others are stopped."""
HEARSAY_S = 1.0
"""How long to wait for another machine that failed before us to say so."""
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
        self._was_signalled = False
        self._shown = 0
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._children: list[Child] = []

    def run(self) -> int:
        """Start everything, wait for the end, report; returns the exit code of the job."""
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        # What was ignored when we came (by nohup, say) stays ignored.
        numbers = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        previous = {number: signal.signal(number, self._on_signal) for number in numbers}
        guard.adopt_orphans()
        try:
            for restart in range(self._max_restart + 1):
                outcome = self._attempt(restart)
                for complaint in outcome.complaints:
                    log.error("%s", complaint)
                if not outcome.may_restart or self._was_signalled or restart == self._max_restart:
                    break
                log.warning("restarting the job, attempt %d of %d", restart + 1, self._max_restart)
            if outcome.code == 0:
                log.info("Local processes completed.")
            return outcome.code
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._was_signalled = True
        self._events.put(Signalled(number))

    def _attempt(self, restart: int) -> Outcome:
        follower = None
        try:
            self._start(restart)
            follower = Follower(self._plan.followed.log_path, STDOUT, self._shown)
            return self._watch()
        finally:
            self._clean_up()
            if follower is not None:
                follower.finish()
                self._shown = follower.position
                _tidy_terminal(follower.is_mid_line)

    def _start(self, restart: int) -> None:
        self._children = []
        if restart:  # what the last attempt left unheard is not about this one
            self._events = SimpleQueue()
        self._plan.layout.team.listen(self._events)
        width = os.get_terminal_size(STDOUT).columns if os.isatty(STDOUT) else None
        for process, log_file in zip(self._plan.processes, self._logs, strict=True):
            seen_at = width if process is self._plan.followed else None
            try:
                self._children.append(Child(process, log_file, self._job_id, restart, seen_at))
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
                    log.warning("%s ended by itself, before the workers", event.plan.name)
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
                guard.reap_orphans(spare={self._guard.pid, *(child.pid for child in self._children)})

    def _obey(self, number: int) -> Outcome:
        name = signal.Signals(number).name
        log.warning("%s: stopping %d processes", name, len(self._running()))
        self._plan.layout.team.failed(NodeFailed(f"fleetrun was stopped by {name}", 128 + number, time.time()))
        self._stop(number)
        return Outcome(128 + number)

    def _finish(self) -> Outcome:
        if any(child.has_failed for child in self._children):
            return self._fail()
        if self._running():
            log.info("all workers exit, going to finish parameter server and heter_worker.")
            self._stop(signal.SIGTERM)
            log.info("all parameter server are killed")
        return Outcome(0)

    def _fail(self, *elsewhere: NodeFailed) -> Outcome:
        """End the job over a failure here or on other machines; whichever began first is the cause."""
        failures = list(elsewhere)
        # A child that has begun to end but is not gone may be the cause of what we saw; its exit comes in moments.
        self._drain(lambda: not any(child.is_leaving for child in self._children), SETTLE_S, failures)
        if not any(child.has_failed for child in self._children):
            self._stop(signal.SIGTERM)
            return _failed_elsewhere(failures)
        cause = report.find_cause(self._children)
        assert cause.status is not None
        began_at = cause.began_to_end_at or 0.0
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
        for child in self._children:
            child.signal(signal.SIGKILL)
            child.reap()
        guard.sweep(self._job_id)
        guard.end_descendants(spare=self._guard.pid)


def _tidy_terminal(is_mid_line: bool) -> None:
    """Undo what a progress bar that was killed has done to the terminal: no cursor, and a line without an end."""
    if os.isatty(STDOUT):
        with contextlib.suppress(OSError):
            os.write(STDOUT, b"\x1b[?25h" + (b"\n" if is_mid_line else b""))


def _failed_elsewhere(failures: list[NodeFailed], *more: str) -> Outcome:
    cause = min(failures, key=lambda failure: failure.began_at)
    return Outcome(cause.code, (f"the job failed on another machine: {cause.what}", *more))
