"""One attempt at a job, on this machine: start, watch, stop.

Everything that can happen arrives in one queue: a child's exit, a signal to the launcher, news from other machines. The
first failure ends the attempt; so does the last worker's success. Whatever way it ends, nothing is left.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from queue import Empty

from fleet.errors import UsageError
from fleet.launch import guard, report, unserved
from fleet.launch.chaos.agent import Agent
from fleet.launch.child import Child, exit_code
from fleet.launch.follow import Follower
from fleet.launch.guard import Guard
from fleet.launch.messages import AllDone, NodeFailed, Regroup
from fleet.launch.output import is_one_place, write_within
from fleet.launch.plan import LaunchPlan
from fleet.launch.waits import Forsaken, Waits
from fleet.observe.ending import unstopped_text
from fleet.observe.waiting import workers_text

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
LOOK_EVERY_S = 1.0
"""How soon a wait that a process has noted is told."""
REAP_EVERY_S = 30.0
"""How long an orphan that we adopted may stay a zombie."""
STDOUT, STDERR = 1, 2


@dataclass(frozen=True)
class Signalled:
    """The launcher itself was told to stop."""

    number: int


Event = Child | Signalled | NodeFailed | Regroup | AllDone | Forsaken


@dataclass(frozen=True)
class RoundOutcome:
    """How one attempt ended."""

    code: int
    complaints: tuple[str, ...] = ()
    """Said after the last line of the followed process."""
    is_final: bool = True
    """It is not to be tried again, whatever is left of `--max_restart`."""


class Attempt:
    """Runs a plan to its end."""

    def __init__(
        self, plan: LaunchPlan, logs: list[int], job_id: str, watchman: Guard, chaos: Agent | None = None
    ) -> None:
        self._plan = plan
        self._logs = logs
        self._logs_from = [os.fstat(file).st_size for file in logs]  # logs of an earlier attempt are continued
        self._job_id = job_id
        self._guard = watchman
        self._chaos = chaos
        self._events = plan.layout.round.news
        self._was_signalled = False
        self._children: list[Child] = []
        self._waits = Waits(self._children, plan.followed)
        self._reap_at = time.monotonic() + REAP_EVERY_S

    def signalled(self, number: int) -> None:
        """The launcher was told to stop; may be called by a signal handler."""
        self._was_signalled = True
        self._events.put(Signalled(number))

    def run(self) -> RoundOutcome:
        """Start everything, wait for the end, leave nothing."""
        followed = self._plan.followed
        shown_from = self._logs_from[self._plan.processes.index(followed)]
        try:
            self._start()
            follower = Follower(followed.log_path, STDOUT, shown_from, lambda: self._was_signalled)
            outcome = self._watch()
        finally:
            self._clean_up()
        self._finish_following(follower, outcome)
        return outcome

    def _start(self) -> None:
        width = os.get_terminal_size(STDOUT).columns if os.isatty(STDOUT) else None
        token, restart = self._plan.layout.team.token.value, self._plan.layout.round.restart
        for process, log_file in zip(self._plan.processes, self._logs, strict=True):
            seen_at = width if process is self._plan.followed else None
            try:
                self._children.append(Child(process, log_file, self._job_id, token, restart, seen_at))
            except OSError as error:
                raise UsageError(f"cannot start {process.name}: {error.strerror or error}") from error
            self._guard.watch(self._children[-1].pid)
        for child in self._children:
            child.when_it_exits(self._events.put)
        if self._chaos is not None:
            self._chaos.start(lambda: list(self._children))

    def _watch(self) -> RoundOutcome:
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
                case Regroup():
                    return self._regroup(event)
                case AllDone():
                    return self._finish()
                case Forsaken(text):
                    return self._end_in_vain(text)
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
                event: Event = self._events.get(timeout=LOOK_EVERY_S)
                return event
            except Empty:
                if time.monotonic() > self._reap_at:
                    guard.reap_orphans(spare=self._not_orphans() | {child.pid for child in self._children})
                    self._reap_at = time.monotonic() + REAP_EVERY_S
            lines, in_vain = self._waits.look()
            for line in lines:
                log.warning("%s", line)
            if in_vain is not None:
                return in_vain

    def _not_orphans(self) -> set[int]:
        return {self._guard.pid, *self._guard.elders}

    def _obey(self, number: int) -> RoundOutcome:
        name = signal.Signals(number).name
        running = self._running()
        for child in running:  # before a word: the terminal may take its time
            child.signal(number)
        log.warning("%s: stopping %d processes", name, len(running))
        self._plan.layout.team.failed(stopped_by(number, self._plan.layout.host))
        self._stop(number)
        return RoundOutcome(128 + number)

    def _regroup(self, event: Regroup) -> RoundOutcome:
        log.warning("%s: stopping %d processes, to start again with it", event.why, len(self._running()))
        self._stop(signal.SIGTERM)
        return RoundOutcome(0, is_final=False)

    def _end_chaos(self) -> None:
        if self._chaos is not None:
            self._chaos.stop()

    def _finish(self) -> RoundOutcome:
        self._end_chaos()
        if any(child.has_failed for child in self._children):
            return self._fail()
        if complaint := unserved.complaint(zip(self._children, self._logs_from, strict=True)):
            log.warning(complaint)
        for complaint in self._unstopped():
            log.warning(complaint)
        if servers := self._running():
            self._stop(signal.SIGTERM)
            for server in servers:
                if server.status not in (0, -signal.SIGTERM, -signal.SIGKILL):
                    how = report.how_it_ended(server.status or 0)
                    log.warning("%s was told to stop: %s; see %s", server.plan.name, how, server.plan.log_path)
        return RoundOutcome(0)

    def _unstopped(self) -> list[str]:
        """One line about the workers that ended in order, but without `fleet.stop_worker()`, if there are any."""
        found = [child.plan.index for child in self._children if child.status == 0 and child.is_unstopped]
        return [unstopped_text(workers_text(found))] if found else []

    def _end_in_vain(self, text: str) -> RoundOutcome:
        self._plan.layout.team.failed(NodeFailed(f"{text} ({self._plan.layout.host})", 1, time.time(), is_final=True))
        self._stop(signal.SIGTERM)
        return RoundOutcome(1, (text,))

    def _fail(self, *elsewhere: NodeFailed) -> RoundOutcome:
        """End the attempt over a failure here or on other machines; whichever began first is the cause."""
        self._end_chaos()
        heard: list[NodeFailed | Regroup] = list(elsewhere)
        # A child that has begun to end but is not gone may be the cause of what we saw; its exit comes in moments.
        self._drain(lambda: not any(child.is_leaving for child in self._children), SETTLE_S, heard)
        if not any(child.has_failed for child in self._children):
            self._stop(signal.SIGTERM)
            return _failed_elsewhere(heard)
        cause, began_at = report.find_cause(self._children)
        assert cause.status is not None
        what = f"{report.one_line(cause)} on {self._plan.layout.host} (pid {cause.pid})"
        self._plan.layout.team.failed(NodeFailed(what, exit_code(cause.status), began_at))
        if self._plan.layout.num_nodes > 1:
            self._drain(lambda: any(_is_before(one, began_at) for one in heard), HEARSAY_S, heard)
        self._stop(signal.SIGTERM)
        followed = self._plan.followed if is_one_place(STDOUT, STDERR) else None
        text = report.failure_report(cause, self._children, shown=followed)
        if any(_is_before(one, began_at) for one in heard):
            return _failed_elsewhere(heard, f"after it, on this machine: {text}")
        aborted = report.abort_line(self._children, len(self._plan.layout.workers)) if self._plan.has_banner else ""
        complaints = tuple(filter(None, (text, aborted, *self._unstopped())))
        return RoundOutcome(exit_code(cause.status), complaints, is_final=_is_any_final(heard))

    def _stop(self, number: int) -> None:
        """Tell everything to end, wait, then insist. A second signal to the launcher ends the waiting."""
        self._end_chaos()
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
        heard: list[NodeFailed | Regroup] | None = None,
        until_signal: bool = False,
    ) -> None:
        """Let events pass until `is_enough`, the time is up, or (if asked) the launcher is signalled again.

        What comes from other machines is kept in `heard`.
        """
        deadline = time.monotonic() + timeout_s
        while not is_enough() and time.monotonic() < deadline:
            try:
                event = self._events.get(timeout=TICK_S)
            except Empty:
                continue
            if isinstance(event, NodeFailed | Regroup) and heard is not None:
                heard.append(event)
            if isinstance(event, Signalled) and until_signal:
                return

    def _clean_up(self) -> None:
        """Leave nothing; each step is taken whatever becomes of the one before."""
        with ExitStack() as steps:
            steps.callback(guard.end_descendants, spare=self._not_orphans())
            steps.callback(guard.sweep, self._job_id)
            for child in self._children:
                steps.callback(self._release, child)
            steps.callback(self._end_chaos)  # the first to be called

    def _release(self, child: Child) -> None:
        child.signal(signal.SIGKILL)
        self._guard.forget(child.pid)
        child.reap()

    def _finish_following(self, follower: Follower, outcome: RoundOutcome) -> None:
        patience_s = None if outcome.code == 0 and outcome.is_final else PATIENCE_S
        is_shown = follower.finish(patience_s, lambda: self._was_signalled)
        if os.isatty(STDOUT):  # a progress bar that was killed leaves no cursor, and a line without an end
            write_within(STDOUT, b"\x1b[?25h" + (b"\n" if follower.is_mid_line else b""), patience_s=0.5)
        if not is_shown:
            log.warning("nobody reads this output; all of it is in %s", self._plan.followed.log_path)


def stopped_by(number: int, host: str) -> NodeFailed:
    """What other machines hear when a user stops the launcher of this one."""
    name = signal.Signals(number).name
    return NodeFailed(f"fleetrun was stopped by {name} on {host}", 128 + number, time.time(), is_final=True)


def _is_before(one: NodeFailed | Regroup, began_at: float) -> bool:
    """Whether it explains a failure that began then; when all are stopped to start again, that explains everything."""
    return isinstance(one, Regroup) or one.began_at < began_at


def _is_any_final(heard: list[NodeFailed | Regroup]) -> bool:
    return any(isinstance(one, NodeFailed) and one.is_final for one in heard)


def _failed_elsewhere(heard: list[NodeFailed | Regroup], *more: str) -> RoundOutcome:
    if any(isinstance(one, Regroup) for one in heard):
        return RoundOutcome(0, is_final=False)
    cause = min((one for one in heard if isinstance(one, NodeFailed)), key=lambda failure: failure.began_at)
    what = f"the job failed on another machine: {cause.what}"
    return RoundOutcome(cause.code, (what, *more), is_final=_is_any_final(heard))
